"""A canary as the database's password, over every channel of a fleet and every verb: it is in none."""

import json
from pathlib import Path

import psycopg
import pytest

from runner.store.connect import password
from tests.commands import run
from tests.db.stage import one
from tests.servers import Connection

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


def test_the_server_knows_no_url(url: str, db: Connection) -> None:
    with psycopg.connect(url) as conn:
        conn.execute("select 1")
        shown = db.execute("select application_name, query from pg_stat_activity").fetchall()
    assert not any(piece in str(shown) for piece in PIECES)


def test_a_password_that_is_shown_anyway_hides_nothing() -> None:
    assert password("postgresql://u:secret@h/d") == "secret"
    for same in ("postgresql://u:u@h/d", "postgresql://u:d@h/d", "postgresql://u@h/d"):
        assert password(same) is None
