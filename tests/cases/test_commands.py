"""Cases about what commands end with and give away: P-52, P-53."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import fleets
from tests.cases.aftermath import DEAD, Scene
from tests.commands import command, environment, error_of, run
from tests.hurting import Hurt, reconnect
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]
HABITS = "tests.apps.habits"
CHORES = ("-A", "tests.apps.chores", "--procs", "2")


# -- P-52 -----------------------------------------------------------------------------------------


@pytest.mark.case("P-52")
def test_p52_how_a_drain_ends(scene: Scene, tmp_path: Path) -> None:
    """Each way to end has its code and one clear line; standard output is for its data alone."""
    url = scene.work.url
    drained = run("drain", *CHORES, "--json", url=url, cwd=fleets.ROOT)
    assert (drained.returncode, drained.stderr) == (0, "")
    assert json.loads(drained.stdout)["reason"] == "empty"

    scene.work.add("ordinary", 3)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    drained = run("drain", "-A", "broken", url=url, cwd=tmp_path)
    assert "No module named 'nothing_of_that_name'" in error_of(drained)
    assert (drained.returncode, drained.stdout) == (78, "")

    for bad, code in (("postgresql://u@h/d?x", 78), ("postgresql://u@127.0.0.1:1/d", 69)):
        drained = run("drain", *CHORES, "--connect-wait", "0", url=bad, cwd=fleets.ROOT)
        assert error_of(drained)
        assert (drained.returncode, drained.stdout) == (code, "")

    scene.work.conn.execute("insert into runner.task (task_type, max_attempts) values ('boom', 1)")
    witnesses = {"CHORES_DIR": str(scene.work.directory)}
    drained = run("drain", *CHORES, "--json", url=url, cwd=fleets.ROOT, **witnesses)
    assert drained.returncode == 1
    assert len(drained.stderr.splitlines()) == 1
    assert "(boom) is dead after 1 attempt" in drained.stderr
    told = json.loads(drained.stdout)
    assert (told["ok"], told["dead"], told["reason"]) == (3, 1, "drained")


@pytest.mark.case("P-52")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_p52_a_drain_cut_short(scene: Scene, number: signal.Signals, code: int) -> None:
    """It gives back what it was at, and says by its code that it was not the end."""
    work = scene.work
    (task,) = work.add("sleepy", seconds=60)
    with scene.fleet("--grace", "200ms", verb="drain", procs=1, ends=code) as fleet:
        wait_until(lambda: work.noted("start"))
        fleet.process.send_signal(number)
    row = work.row(task)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 0)


@pytest.mark.case("P-52")
@pytest.mark.full  # it waits for a minute before it gives up
def test_p52_the_database_goes_in_the_middle_of_a_drain(hurt: tuple[Hurt, Scene]) -> None:
    """It waits for it a while, gives up with 69, and says why."""
    server, scene = hurt
    work = scene.work
    work.add("slow", 200, seconds=0.1)
    scene.expect("database has been away")
    with scene.fleet(verb="drain", procs=2, ends=69) as fleet:
        wait_until(lambda: len(work.noted("start")) > 4)
        server.crash()
        assert fleet.process.wait(90) == 69
        assert fleet.log() == "runner: error: the database has been away for too long\n"
        server.start()
        reconnect(work)
    with scene.fleet("--max-time", "60s", verb="drain", procs=4, ends=0) as fleet:
        assert fleet.process.wait(60) == 0
    assert not work.running()


# -- P-53 -----------------------------------------------------------------------------------------

SECRET = "S3cr3tXyz"


@pytest.mark.case("P-53")
@pytest.mark.parametrize("form", ["url", "keywords"])
def test_p53_the_password_is_nowhere(scene: Scene, form: str) -> None:
    """At the highest verbosity, in what handlers raise and print, in `ps` and in what verbs show."""
    work = scene.work
    url = work.url.replace("//postgres@", f"//postgres:{SECRET}@", 1)
    if form == "keywords":
        import psycopg.conninfo

        parts = psycopg.conninfo.conninfo_to_dict(url)
        url = psycopg.conninfo.make_conninfo("", **parts)
        assert "password=" in url
    assert SECRET in url
    scene.expect(DEAD + "1 attempt: RuntimeError")
    (task,) = work.add("gives_away")
    with scene.fleet("-vv", app=HABITS, procs=2, url=url) as fleet:
        wait_until(work.only_dead, 20)
        fleets.wait_registered(work, 2)
        shown = [processes_of(fleet.pid)]
    shown.append(scene.log())
    assert "could not reach" in scene.log()  # the handler's own words, without it
    for verb in (
        ["show", str(task)],
        ["show", str(task), "--json"],
        *(["list", "--json"], ["todo"], ["status"], ["dead", "list"], ["explain", str(task)]),
        *(["workers"], ["doctor"], ["check", "-A", HABITS, "--app-dir", str(fleets.ROOT)]),
    ):
        done = run(*verb, "-vv", url=url)
        shown += [done.stdout, done.stderr]
    columns = "last_error, cause, params::text"
    shown += map(str, work.conn.execute(f"select {columns} from runner.task").fetchall())
    activity = "select application_name, query from pg_stat_activity"
    shown += map(str, work.conn.execute(activity).fetchall())
    assert [text for text in shown if SECRET in text] == []


def processes_of(parent: int) -> str:
    """What `ps` shows of a fleet."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    done = subprocess.run(
        ["ps", "-ww", "-o", "pid,args", "-p", ",".join([str(parent), *children])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) >= 4
    return done.stdout


def is_hidden(line: bytes) -> bool:
    """Whether a command line is ours, and without it; before the exec it is another's, or empty."""
    return b"status" in line and SECRET.encode() not in line


@pytest.mark.case("P-53")
def test_p53_a_url_that_does_not_parse_or_leads_nowhere(tmp_path: Path) -> None:
    """Also on the command line, where it does not stay for others to read."""
    for url in (
        f"postgresql://u:{SECRET}@h:no/d",
        f"postgresql://u:{SECRET}@127.0.0.1:1/d",
        f"host=127.0.0.1 port=1 user=u password={SECRET}",
        f"postgresql://u:a@{SECRET}@h/d",
    ):
        for arguments, variables in (
            (["status", "--database-url", url], {}),
            (["status"], {"DATABASE_URL": url}),
        ):
            done = run(*arguments, "-vv", "--connect-wait", "0", cwd=tmp_path, **variables)
            assert done.returncode in (69, 78)
            assert SECRET not in done.stdout + done.stderr
    typed = command("status", "--connect-wait", "30s", "--database-url")
    with subprocess.Popen(
        [*typed, f"postgresql://u:{SECRET}@127.0.0.1:1/d"],
        env=environment(), cwd=tmp_path, stderr=subprocess.DEVNULL,
    ) as waiting:  # fmt: skip
        line = Path(f"/proc/{waiting.pid}/cmdline")
        try:
            wait_until(lambda: is_hidden(line.read_bytes()), 20, "typed, and hidden")
        finally:
            os.kill(waiting.pid, signal.SIGKILL)
