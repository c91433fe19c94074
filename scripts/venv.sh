# Sourced by the other scripts, which set $top to the checkout.
# make_venv DIR ARGUMENT...: DIR is a virtual environment in which `pip install ARGUMENT...` has been
# done since setup.cfg last changed. Any number of processes may ask for it at once.

fail() {
    printf 'runner: error: %s\n' "$1" >&2
    exit 78
}

# Sets $python to the first Python that can do it; one line says what to install when none can.
find_python() {
    lacking=
    for python in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        answer=$("$python" -I -c '
import importlib.util, sys
if sys.version_info >= (3, 11):
    whole = all(map(importlib.util.find_spec, ("ensurepip", "venv", "fcntl")))
    print("whole" if whole else "python%d.%d" % sys.version_info[:2])
' 2>/dev/null) || continue
        [ "$answer" != whole ] || return 0
        lacking=${lacking:-$answer}
    done
    [ -z "$lacking" ] ||
        fail "$lacking has no venv module: install it (Debian, Ubuntu: apt-get install $lacking-venv)"
    fail "no Python 3.11 or newer: install it with its venv module (Debian, Ubuntu: apt-get install python3-venv)"
}

is_current() {
    [ -x "$venv/bin/python" ] && [ -r "$venv/made-from" ] && [ "$(cat "$venv/made-from")" = "$made_from" ]
}

build() {
    printf 'runner: installing into %s\n' "$venv" >&2
    "$venv/bin/python" -I -m pip --version >/dev/null 2>&1 ||
        "$python" -I -m venv --clear "$venv" >&2 || fail "could not make $venv"
    # What is built along the way runs in Pythons that do take these from the surroundings.
    (unset PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX &&
        "$venv/bin/python" -I -m pip install -qq --disable-pip-version-check --no-input "$@" >&2) ||
        fail "could not install into $venv, for the reason above"
    printf '%s\n' "$made_from" >"$venv/made-from.$$"
    mv "$venv/made-from.$$" "$venv/made-from"
}

make_venv() {
    venv=$1
    shift
    # The place belongs to it: scripts in a moved environment name the old one.
    made_from="$(cksum <"$top/setup.cfg") $top $*"
    is_current && return
    find_python
    # The checkout itself is the lock. Children inherit it, so that a killed script leaves nobody
    # behind who installs without it; where a directory cannot be locked, go on without.
    exec 9<"$top"
    "$python" -I -c '
import fcntl
try:
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass'
    is_current || build "$@"
    exec 9<&-
}
