"""Cases about a database that changes under a fleet: P-38, P-49, P-50, P-51, P-66, P-71."""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from runner.backoff import Backoff
from runner.judge import Judge
from runner.observing import Observer
from runner.store import operate, passes, schema, tasks
from runner.store.connect import connect
from runner.store.tasks import Filter
from tests import fleets, servers
from tests.cases.aftermath import DEAD, Scene
from tests.commands import error_of, run
from tests.db.stage import Background
from tests.hurting import Hurt
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]

END_BACKENDS = """select pg_terminate_backend(pid) from pg_stat_activity
    where application_name like %s and datname = current_database() and pid <> pg_backend_pid()"""


def end_backends(work: fleets.Work, application: str = "runner %") -> int:
    """End the sessions of a fleet; how many."""
    return work.conn.execute(END_BACKENDS, [application]).rowcount


# -- P-38 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-38")
def test_p38_a_database_that_is_read_only_by_default(scene: Scene) -> None:
    """Our sessions say themselves that they write, so a default of the database does not stop them;
    a server that is read only because it is a standby is another matter (the chaos tests)."""
    work = scene.work
    (name,) = work.conn.execute("select current_database()").fetchone() or ("",)
    change = sql.SQL("alter database {} {} default_transaction_read_only {}")
    database = sql.Identifier(name)
    with scene.fleet("--backoff", "200ms:1s"):
        fleets.wait_registered(work, 4)
        ids = work.add("slow", 20, seconds=0.05)
        work.conn.execute(change.format(database, sql.SQL("set"), sql.SQL("= on")))
        assert end_backends(work) >= 4
        ids += work.add("slow", 20, seconds=0.05)
        with closing(psycopg.connect(work.url, autocommit=True)) as other:
            assert other.execute("show transaction_read_only").fetchone() == ("on",)
        wait_until(work.empty, 20, "work goes on while it is on")
        work.conn.execute(change.format(database, sql.SQL("reset"), sql.SQL("")))
        ids += work.add("ordinary", 10)
        wait_until(work.empty, 20)
    work.exactly_once(ids)


# -- P-49 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-49")
@pytest.mark.parametrize(
    ("seconds", "count"), [(4, 1500), pytest.param(60, 5000, marks=pytest.mark.full)]
)
@pytest.mark.timeout(300)
def test_p49_nobody_deadlocks(scene: Scene, seconds: int, count: int) -> None:
    """Eight workers, passes every 50 ms from two hosts, and people who requeue and cancel in bulk."""
    work = scene.work
    scene.expect(DEAD + "1 attempt: ValueError")
    query = """insert into runner.task (task_type, params, max_attempts)
        select case when n %% 3 = 0 then 'boom' else 'ordinary' end, '{}', 1
        from generate_series(1, %s) n returning task_id"""
    every = {row[0] for row in work.conn.execute(query, [count]).fetchall()}
    until = time.monotonic() + seconds

    def sweeps() -> int:
        observer: Observer[UUID] = Observer()
        judge = Judge(Backoff(), random.Random(1))
        made = 0
        with connect(work.url, "test") as conn:
            while time.monotonic() < until:
                ripe, _ = observer.look(passes.leases(conn), time.monotonic())
                passes.sweep(conn, ripe, judge)
                passes.promote(conn)
                made += 1
                time.sleep(0.05)
        return made

    def operates() -> int:
        cancel = operate.remover("cancelled", "me")
        changed = 0
        with connect(work.url, "test") as conn:
            while time.monotonic() < until:
                dead = tasks.ids(conn, Filter(states=["dead"]), 1000)
                changed += len(operate.requeue(conn, dead, ["dead"]))
                some = tasks.ids(conn, Filter(types=["ordinary"]), 5)
                changed += len(cancel(conn, some, operate.EVERY_STATE))
                time.sleep(0.02)
        return changed

    with scene.fleet(procs=8):
        calls = [Background(call) for call in (sweeps, sweeps, operates, operates)]
        for call in calls:
            call.thread.join(seconds + 30)
            assert call.result() > 0
        wait_until(work.only_dead, 30)
    (deadlocks,) = work.conn.execute(
        "select deadlocks from pg_stat_database where datname = current_database()"
    ).fetchone() or (1,)
    assert deadlocks == 0
    dead = {row[0] for row in work.conn.execute("select task_id from runner.task").fetchall()}
    removed = {row[0] for row in work.conn.execute("select task_id from runner.removed").fetchall()}
    work.exactly_once(sorted(every - dead - removed))
    assert "deadlock" not in scene.log()


# -- P-50 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-50")
def test_p50_tables_are_altered_under_load(scene: Scene) -> None:
    """A new column and another type of one: statements are prepared anew, no task fails for it."""
    work = scene.work
    with scene.fleet() as fleet:
        workers = fleets.wait_registered(work, 4)
        ids = work.add("slow", 150, seconds=0.05)
        wait_until(lambda: len(work.effects()) >= 20)
        for change in (
            "alter table runner.task add column note text default 'new'",
            "alter table runner.task alter column released type bigint",
            "alter table runner.worker add column note text",
            "alter table runner.task drop column note",
        ):
            before = len(work.effects())
            work.conn.execute(change)
            ids += work.add("ordinary", 5)
            wait_until(lambda least=before: len(work.effects()) > least, 20)
        wait_until(work.empty, 30)
        assert fleets.wait_registered(work, 4) == workers
        assert fleet.log().count("cannot claim") <= 4 * 4  # once a connection and change
    work.exactly_once(ids)
    assert {fields[2] for fields in work.noted("start")} == {"1"}
    assert "will be retried" not in scene.log()


# -- P-51 -----------------------------------------------------------------------------------------

# Sessions for the passes, in none of them just now; one that listens is not among them.
PASSING = """select pid from pg_stat_activity
    where application_name = 'runner maintainer' and state = 'idle' and query not ilike 'listen%'"""


def rows(work: fleets.Work, query: str) -> int:
    """How many there are."""
    return work.conn.execute(query).rowcount


@pytest.mark.full  # about 20 s
@pytest.mark.case("P-51")
def test_p51_whoever_makes_the_passes(hurt: tuple[Hurt, Scene]) -> None:
    """There is no lasting leader: each pass takes a lock for its own transaction, on any host. With
    sessions ended in the middle and one that stands still the others go on, and what a dead host held
    is taken once."""
    _, scene = hurt
    work = scene.work
    short = ("--lease", "3s", "--renew", "500ms")
    with scene.fleet(*short, procs=1, ends=-signal.SIGKILL) as first:
        (lost,) = work.add("sleepy", seconds=15)  # longer than the others need to come up
        wait_until(lambda: work.noted("start"))
        with scene.fleet(*short, procs=1), scene.fleet(*short, procs=1):
            wait_until(lambda: rows(work, "select from runner.worker") == 3, 20, "three workers")
            for _ in range(5):
                end_backends(work, "runner maintainer")
                time.sleep(0.05)
            first.process.kill()
            wait_until(lambda: rows(work, PASSING) >= 2, 20, "connected again")
            (frozen,) = work.conn.execute(PASSING).fetchone() or (0,)
            with servers.stopped(frozen):
                query = """insert into runner.task (task_type, run_at)
                    select 'ordinary', clock_timestamp() + interval '0.5 s' * n
                    from generate_series(1, 6) n returning task_id"""
                due = [row[0] for row in work.conn.execute(query).fetchall()]
                # First, because its next run ends after some seconds and takes the row along.
                swept = "select solo from runner.task where task_id = %s and released = 1"
                found = wait_until(lambda: work.conn.execute(swept, [lost]).fetchone(), 20, "swept")
                assert found == (True,)
                wait_until(lambda: set(due) <= set(work.effects()), 20, "promoted by others")
            wait_until(work.empty, 60)
    work.exactly_once([lost, *due])
    assert scene.log().count("(sleepy)") == 1  # told once that it was swept


# -- P-66 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-66")
def test_p66_an_empty_search_path_and_a_decoy_in_front(scene: Scene) -> None:
    """The schema's name is fixed, and every statement says it: no search path leads astray."""
    work = scene.work
    work.conn.execute(
        """create schema decoy;
           create table decoy.task (like runner.task including all);
           create table decoy.worker (like runner.worker including all);
           create function decoy.enqueue(text) returns bigint language sql as 'select 1 / 0';
           alter table effect set schema decoy; set search_path = decoy"""
    )
    for path in ("", "decoy,runner"):
        url = f"{work.url}%20-c%20search_path%3D{path}"
        assert run("enqueue", "noop", "{}", url=url).returncode == 0
        with scene.fleet(url=url, procs=1):
            wait_until(lambda: not work.states())
        for verb in (["status"], ["list"], ["workers"], ["todo"], ["dead", "list"]):
            done = run(*verb, url=url)
            assert (done.returncode, "error" in done.stderr) == (0, False), done
    assert work.conn.execute("select count(*) from decoy.task").fetchone() == (0,)


@pytest.fixture
def bare(server: servers.Embedded) -> Iterator[str]:
    """A database without a schema of ours."""
    with servers.fresh_database(server) as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("drop schema runner cascade")
        yield url


@pytest.mark.case("P-66")
def test_p66_a_schema_half_made_older_or_newer(bare: str) -> None:
    """An installer that dies leaves nothing; each verb says what to run, with its code."""
    with closing(psycopg.connect(bare)) as conn:
        # Killed in the middle, as by a lost connection: all of it is one transaction.
        conn.execute(schema.text().split("create table if not exists runner.worker")[0].encode())
        assert conn.execute("select to_regclass('runner.task')").fetchone() != (None,)
    for verb in ("start", "drain", "status"):
        result = run(verb, "-A", "tests.apps.chores", url=bare, cwd=fleets.ROOT)
        assert (result.returncode, result.stderr.splitlines()[1]) == (78, "hint: run: runner init")
    for _ in range(2):
        assert run("init", url=bare).returncode == 0
    for version, hint in ((0, "hint: run: runner migrate"), (999, "hint: install")):
        with psycopg.connect(bare) as conn:
            conn.execute("update runner.meta set version = %s", [version])
        for verb in ("start", "drain", "status"):
            result = run(verb, "-A", "tests.apps.chores", url=bare, cwd=fleets.ROOT)
            assert error_of(result).startswith("the schema")
            assert result.returncode == 78
            assert result.stderr.splitlines()[1].startswith(hint)


# -- P-71 -----------------------------------------------------------------------------------------


class Secret:
    """A role whose password is asked for and may change, and the file that clients read it from."""

    def __init__(self, hurt: Hurt, work: fleets.Work, directory: Path) -> None:
        self.work = work
        self.file = directory / "passfile"
        hba = hurt.data / "pg_hba.conf"
        hba.write_text("local all rotated scram-sha-256\n" + hba.read_text())
        work.conn.execute("create role rotated login superuser; select pg_reload_conf()")
        self.url = work.url.replace("//postgres@", "//rotated@", 1)
        self.url += f"&passfile={self.file}"

    def change(self, password: str) -> None:
        """In the database."""
        self.work.conn.execute(
            sql.SQL("alter role rotated password {}").format(sql.Literal(password))
        )

    def write(self, password: str) -> None:
        """Into the file."""
        self.file.write_text(f"*:*:*:rotated:{password}\n")
        self.file.chmod(0o600)

    def end_sessions(self) -> None:
        """So that everybody has to connect again."""
        self.work.conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotated'"
        )


REFUSED = "password authentication failed"


@pytest.mark.case("P-71")
def test_p71_a_password_rotated_under_a_fleet(hurt: tuple[Hurt, Scene]) -> None:
    """Read anew at each connection; a wrong one is waited out, and told once; a drain says 78."""
    server, scene = hurt
    work = scene.work
    scene.expect(REFUSED)
    secret = Secret(server, work, work.directory)
    secret.change("one")
    secret.write("one")
    # Whose lease ends meanwhile may be swept before it is renewed again, and is replaced.
    with scene.fleet("--lease", "60s", url=secret.url, procs=2) as fleet:
        workers = fleets.wait_registered(work, 2)
        secret.change("two")
        secret.write("two")
        secret.end_sessions()
        ids = work.add("ordinary", 10)
        wait_until(work.empty, 20, "connected with the new one")
        # A session that is still asking for its password is not among those that can be ended.
        wait_until(lambda: "database is back" in fleet.log(), 20, "the renewer too")
        secret.change("three")
        secret.end_sessions()
        wait_until(lambda: REFUSED in fleet.log(), 20, "told why")
        ids += work.add("ordinary", 10)
        time.sleep(2)  # several tries
        assert fleet.log().count(REFUSED) == 1
        assert work.states() == {"ready": 10}
        drained = run("drain", "-A", "tests.apps.chores", url=secret.url, cwd=fleets.ROOT)
        assert "password authentication failed" in error_of(drained)
        assert drained.returncode == 78
        secret.write("three")
        wait_until(work.empty, 30, "connected with the right one")
        assert fleets.wait_registered(work, 2) == workers
    work.exactly_once(ids)
    for password in ("one", "two", "three"):
        assert f":{password}" not in scene.log()
