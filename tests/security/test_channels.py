"""A canary as the database's password, over every channel of a fleet and every verb: it is in none."""

import json
from pathlib import Path

import psycopg
import pytest

from runner.cli.root import VERBS as VERB_ORDER
from runner.store.connect import password
from tests.commands import Job, command, environment, run, run_jobs
from tests.db.stage import one
from tests.process.test_cli_errors import MALFORMED
from tests.process.test_cli_errors import SECRET as CANARY
from tests.servers import Connection
from tests.terminals import terminal

pytestmark = [pytest.mark.db, pytest.mark.process]

SECRET = 'S3c"r#t Ä\\canary'
QUOTED = "S3c%22r%23t%20%C3%84%5Ccanary"
PIECES = ("S3c", "canary")

# Everything that an app may do with the URL by accident: raise it, print it, log it, hand it to a driver
# whose error repeats it, put it into a hook, into progress, into a program's output.
APP = f"""
import os, subprocess, warnings
import psycopg, runner

URL = os.environ["DATABASE_URL"]
SECRET = {SECRET!r}
tasks = runner.Registry()

@tasks.on_worker_start
def begin():
    raise RuntimeError(f"cannot prepare {{URL}}")

@tasks.on_error
def report(task, error):
    raise RuntimeError(f"cannot report to {{SECRET}}")

@tasks.task(max_attempts=1)
def raises(tx, task):
    raise ValueError(f"at {{URL}}: {{SECRET}}")

@tasks.task(max_attempts=1)
def chained(tx, task):
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        raise KeyError(URL) from error

@tasks.task(max_attempts=1)
def connects(tx, task):
    psycopg.connect(URL + "&connect_timeout=1&hostaddr=127.0.0.1&port=1", password=SECRET)

@tasks.task(max_attempts=1)
def misspelt(tx, task):
    psycopg.connect(URL + "&" + SECRET)

@tasks.task(max_attempts=1)
def speaks(tx, task):
    print("print", URL, SECRET)
    task.log.warning("log %s %s", URL, SECRET)
    try:
        1 / 0
    except ZeroDivisionError as error:
        error.add_note(SECRET)
        task.log.exception("trouble with %r", SECRET)
    os.write(2, f"raw {{URL}} {{SECRET}}\\n".encode())
    subprocess.run(["sh", "-c", 'echo "program $DATABASE_URL" >&2'])

@tasks.task(max_attempts=1)
def discards(tx, task):
    raise runner.Discard(f"no use: {{SECRET}}")
"""
TYPES = ("raises", "chained", "connects", "misspelt", "speaks", "discards")
VERBS = (
    "status --json -vv",
    "list --json -vv",
    "show {id} --json -vv",
    "explain {id} -vv",
    "todo -vv",
    "todo --json -vv",
    "dead list -vv",
    "dead show {id} -vv",
    "workers --json -vv",
    "health -vv",
    "check --procs 500 -vv",
    "pause q -vv",
    "resume q -vv",
    "init -vv",
    "migrate -vv",
    "cancel 0 -vv",
    "enqueue -vv hello {{",
    "list --type {url} -vv",
    "start --procs {url}",
    "{url} status",
)


# `db` takes no URL, `demo` brings its own database.
VERB_NAMES = [name for name in VERB_ORDER if name not in ("db", "demo")]
NOW = ("--connect-wait", "0")
WITH_ARGUMENTS = {
    "enqueue": "enqueue hello",
    "show": "show 1",
    "explain": "explain 1",
    "dead": "dead list",
    "cancel": "cancel 1",
    "pause": "pause q",
    "resume": "resume q",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text("import runner\ntasks = runner.Registry()\n")
    return tmp_path


@pytest.fixture
def url(db_url: str) -> str:
    """The server trusts, so that any password will do."""
    return db_url.replace("@", f":{QUOTED}@", 1)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_channel_of_a_fleet(form: str, url: str, db: Connection, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(APP)
    db.execute("insert into runner.task (task_type) select unnest(%s::text[])", [list(TYPES)])
    options = ("-vv", "--log-format", form, "--procs", "2", "--fail-on", "never")
    result = run("drain", *options, url=url, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = result.stdout + result.stderr
    # Each of them did speak: what is missing is only the secret.
    for words in (
        "cannot prepare",
        "cannot report",
        "print ",
        "log ",
        "trouble",
        "raw ",
        "program ",
    ):
        assert words in said, words
    assert one(db, "select count(*) from runner.task where state = 'dead'") == len(TYPES) - 1
    kept = "".join(str(row) for row in db.execute("select * from runner.task"))
    for piece in PIECES:
        assert [line for line in said.splitlines() if piece in line] == []
        assert piece not in kept
    if form == "json":
        lines = [line for line in result.stderr.splitlines() if line.startswith("{")]
        assert len([json.loads(line) for line in lines]) > 10


def test_no_verb(url: str, db: Connection, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(APP)
    row = db.execute(
        "insert into runner.task (task_type, state) values ('raises', 'dead') returning task_id"
    ).fetchone()
    assert row is not None
    for verb in VERBS:
        arguments = [part.format(id=row[0], url=url) for part in verb.split()]
        result = run(*arguments, url=url, cwd=tmp_path)
        for piece in PIECES:
            assert piece not in result.stdout + result.stderr, verb


@pytest.mark.timeout(300)
def test_malformed_urls_over_all_verbs(project: Path) -> None:
    """Each URL by the environment and by the option to some verbs, each verb with some of them."""
    jobs = []
    for number, url in enumerate(MALFORMED):
        for step in range(0, len(VERB_NAMES), 7):
            verb = WITH_ARGUMENTS.get(name := VERB_NAMES[(number + step) % len(VERB_NAMES)], name)
            loud = ["-vv", "--log-format", ("text", "json")[number % 2], "--database-url", url]
            jobs.append(Job([*verb.split(), *loud, *NOW], cwd=project))
        jobs.append(Job([*verb.split(), "-v", *NOW], {"DATABASE_URL": url}, cwd=project))
    codes = set()
    for job, result in zip(jobs, run_jobs(jobs), strict=True):
        assert CANARY not in result.stdout + result.stderr, job.arguments
        codes.add(result.returncode)
    assert {78} <= codes <= {69, 78}  # some of them lead to a host that is not there
    assert len(jobs) > 100


def test_the_live_view(url: str, db: Connection, tmp_path: Path) -> None:
    """What the log would say is above it, and rows are in it."""
    (tmp_path / "tasks.py").write_text(APP)
    line = command("start", "--procs", "2", "--grace", "0s")
    with terminal(line, tmp_path, environment(DATABASE_URL=url)) as shown:
        shown.wait_for("cannot prepare")
        db.execute("insert into runner.task (task_type) select unnest(%s::text[])", [list(TYPES)])
        shown.wait_for("DEAD", "raises", "discards")
        shown.process.terminate()
        shown.end()
        assert not [piece for piece in PIECES if piece.encode() in shown.sent]


def test_the_server_knows_no_url(url: str, db: Connection) -> None:
    with psycopg.connect(url) as conn:
        conn.execute("select 1")
        shown = db.execute("select application_name, query from pg_stat_activity").fetchall()
    assert not any(piece in str(shown) for piece in PIECES)


def test_a_password_that_is_shown_anyway_hides_nothing() -> None:
    assert password("postgresql://u:secret@h/d") == "secret"
    for same in ("postgresql://u:u@h/d", "postgresql://u:d@h/d", "postgresql://u@h/d"):
        assert password(same) is None
