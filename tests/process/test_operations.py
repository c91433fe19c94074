"""The page on operating, followed: commands typed, alerts held against the figures, hooks run."""

import json
import os
import re
import subprocess
from pathlib import Path

import psycopg
import pytest
import yaml

from runner.store import tallies
from tests.commands import run
from tests.docs import block, typed
from tests.fleets import Work, running, wait_registered, work
from tests.servers import wait_until
from tests.terminal import Terminal, cron_commands

pytestmark = [pytest.mark.process, pytest.mark.db]
PAGE = "docs/operations.md"
APP = """
import runner
tasks = runner.Registry()

@tasks.task
def hello(tx, task):
    pass

@tasks.task(max_attempts=1)
def send_mail(tx, task):
    raise ValueError("no luck")
"""


def app(directory: Path, text: str = APP) -> None:
    (directory / "tasks.py").write_text(text, "utf-8")


def test_the_first_steps(fresh: str, tmp_path: Path) -> None:
    app(tmp_path)
    terminal = Terminal(tmp_path, fresh)
    said = {line: terminal.type(line) for line in typed(block(PAGE, "runner init"))}
    assert "send_mail" in said["runner check"].stdout


def test_the_entry_for_cron(fresh: str, tmp_path: Path) -> None:
    app(tmp_path)
    terminal = Terminal(tmp_path, fresh)
    terminal.type("runner enqueue hello")
    env = re.sub("'.*'", f"'{fresh}'", block(PAGE, "export DATABASE_URL='").text)
    (tmp_path / "env").write_text(env)
    del terminal.environment["DATABASE_URL"]  # cron knows none
    (command,) = cron_commands(block(PAGE, "* * * * *").text)
    assert terminal.cron(command.replace("/srv/app", str(tmp_path))) == ""
    assert "hello" not in terminal.type(f"{env.strip()}; runner list").stdout


def test_a_night(fresh: str, tmp_path: Path) -> None:
    """One type fails, one has no handler: the commands tell which, and what to do about them works."""
    app(tmp_path)
    terminal = Terminal(tmp_path, fresh)
    with work(fresh, tmp_path) as queue:
        queue.add("send_mail", 3)
        queue.add("make_tea", 2)
        with terminal.begun("runner start --procs 1 --no-console"):
            wait_until(lambda: queue.states()["dead"] == 3, 30, "three are dead")
            said = {line: terminal.type(line).stdout for line in typed(block(PAGE, "runner todo"))}
            assert "make_tea" in said["runner todo"]
            assert "no luck" in said["runner todo"]
            assert said["runner dead list"].count("send_mail") == 3
            assert "hello" not in said["runner workers"]
            broken = run(
                *typed(block(PAGE, "runner status --check"))[0].split()[1:], url=fresh, cwd=tmp_path
            )
            assert broken.returncode == 1
            assert "dead is 3, more than 0" in broken.stderr
            assert terminal.type(typed(block(PAGE, "runner health"))[1])
            pause, dry, requeue, resume = typed(block(PAGE, "runner pause"))
            terminal.type(pause)
            terminal.type(dry)
            assert queue.states()["dead"] == 3
            terminal.type(requeue)
            assert queue.states() == {"ready": 5}
            terminal.type(resume)
            wait_until(lambda: queue.states()["dead"] == 3, 30, "tried again")


def test_what_runs_is_called_as_the_page_says(fresh: str, tmp_path: Path) -> None:
    """Sessions by application_name; processes by their titles, the parent's left as it was typed."""
    with work(fresh, tmp_path) as queue:
        options = ("--metrics-file", str(tmp_path / "x.prom"))
        with running(fresh, tmp_path, *options, procs=2) as fleet:
            wait_registered(queue, 2)
            wait_until(lambda: len(_sessions(queue)) >= 6, 20, "everybody is connected")
            assert _sessions(queue) == {
                *("runner worker 0", "runner worker 1", "runner renewer"),
                *("runner maintainer", "runner listener", "runner metrics"),
            }
            titles = _titles(fleet.pid)
            assert titles == {
                "runner: log",
                *("runner: renewer", "runner: maintainer", "runner: metrics"),
                *("runner: worker 0", "runner: worker 1"),
            }
            assert "start" in _title(fleet.pid).split()
            assert fleet.stop() == 0
        page = block(PAGE, "runner status --check").path.read_text()
        for name in ("worker 0", "renewer", "maintainer", "listener", "metrics", "console"):
            assert f"`runner {name}`" in page


def test_the_log_has_the_fields_of_the_page(fresh: str, tmp_path: Path) -> None:
    page = block(PAGE, "runner status --check").path.read_text()
    fields = re.findall(r"`(\w+)`", page.partition("whose names and")[2].partition("Params are")[0])
    with work(fresh, tmp_path) as queue:
        for name in ("boom", "prints", "selfkill", "ordinary", "segfault"):
            queue.add(name)
        queue.add("chooses", how="snooze", delay=600)
        queue.add("make_tea")
        options = ("-v", "--log-format", "json")
        with running(fresh, tmp_path, *options, procs=2) as fleet:
            wait_until(lambda: queue.states()["dead"] == 3, 60, "what can die is dead")
            wait_until(lambda: "not_implemented" in fleet.log(), 30, "told")
            assert fleet.stop() == 0
    records = [json.loads(line) for line in fleet.log().splitlines()]
    assert {name for one in records for name in one} <= set(fields)
    for one in records:
        assert list(one)[:4] == ["time", "level", "event", "message"]
        assert "role" in one
    ended = {one["event"]: one for one in records if one["event"] in ("retried", "dead", "done")}
    for one in ended.values():
        assert {"task", "type", "attempt", "role"} <= set(one)
    assert {"worker_died", "output", "snoozed", "stopping", "spawned"} <= {
        r["event"] for r in records
    }


def _sessions(queue: Work) -> set[str]:
    query = """select application_name from pg_stat_activity
               where datname = current_database() and application_name like 'runner %'"""
    return {row[0] for row in queue.conn.execute(query)}


def _titles(parent: int) -> set[str]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {_title(int(pid)) for pid in children}


def _title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def test_alerts_are_about_figures_that_there_are(fresh: str) -> None:
    groups = yaml.safe_load(block(PAGE, "groups:").text)
    expressions = [rule["expr"] for group in groups["groups"] for rule in group["rules"]]
    named = {name for text in expressions for name in re.findall(r"runner_\w+", text)}
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("insert into runner.task (task_type) values ('x')")
        conn.execute(
            "insert into runner.tally (task_type, minute, durations)"
            " values ('x', now(), array_fill(1::bigint, array[64]))"
        )
        assert tallies.totals(conn)
    text = run("metrics", url=fresh).stdout
    there = set(re.findall(r"^(runner_\w+)", text, re.MULTILINE))
    assert named <= there, named - there
    assert len(expressions) >= 6
    labels = {one for found in expressions for one in re.findall(r'\{(\w+)="', found)}
    assert labels <= set(re.findall(r'[{,](\w+)="', text))


def test_completion(tmp_path: Path) -> None:
    (line,) = typed(block(PAGE, "_RUNNER_COMPLETE"))
    words = "COMP_WORDS=(runner sta) COMP_CWORD=1; _runner_completion runner; echo ${COMPREPLY[@]}"
    said = Terminal(tmp_path, "postgresql:///nowhere").type(f"set +u; {line}; {words}")
    assert {"start", "status"} <= set(said.stdout.split())


# -- hooks ----------------------------------------------------------------------------------------

HANDLERS = """

@tasks.task(max_attempts=1)
def boom(tx, task):
    raise ValueError("sorry")

@tasks.task
def fine(tx, task):
    pass

@tasks.task
def later(tx, task):
    raise runner.Snooze(3600)
"""


def _run_on(url: str, directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    app(directory, text + HANDLERS)
    with work(url, directory) as queue:
        queue.add("boom", params="nobody's business")
        queue.add("fine", 2)
        queue.add("later")
    return run("drain", "--procs", "1", "--fail-on", "never", url=url, cwd=directory)


def test_failures_go_to_sentry_without_params(fresh: str, tmp_path: Path) -> None:
    """A transport of the real SDK that writes what it would send into a file."""
    text = block(PAGE, "sentry_sdk").text
    capture = """
import json, sentry_sdk.transport

class ToFile(sentry_sdk.transport.Transport):
    def capture_envelope(self, envelope):
        with open("sentry", "ab") as file:
            file.write(envelope.serialize())
"""
    init = 'sentry_sdk.init("https://key@nowhere.example.com/1", transport=ToFile, '
    text = text.replace("sentry_sdk.init(", init).replace("tasks =", f"{capture}\ntasks =", 1)
    _run_on(fresh, tmp_path, text)
    events = []
    for line in (tmp_path / "sentry").read_text().splitlines():
        found = json.loads(line)
        events += [found] if "exception" in found else []
    (event,) = events
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "sorry")
    assert event["tags"]["task.type"] == "boom"
    assert event["contexts"]["task"]["attempt"] == 1
    assert "business" not in (tmp_path / "sentry").read_text()


def test_every_attempt_is_a_span(fresh: str, tmp_path: Path) -> None:
    text = block(PAGE, "runner.otel").text
    to_file = (
        'ConsoleSpanExporter(out=open("spans", "a"), formatter=lambda s: s.to_json(None) + "\\n")'
    )
    _run_on(fresh, tmp_path, text.replace("ConsoleSpanExporter()", to_file))
    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    by_type = {span["attributes"]["runner.task.type"]: span for span in spans}
    assert len(spans) == 4
    for span in spans:
        assert (span["name"], span["kind"]) == ("process default", "SpanKind.CONSUMER")
        about = span["attributes"]
        assert about["messaging.system"] == "runner"
        assert about["messaging.operation.type"] == "process"
        assert about["messaging.destination.name"] == "default"
        assert about["messaging.message.id"].isdigit()
    failed = by_type["boom"]
    assert failed["status"]["status_code"] == "ERROR"
    assert failed["attributes"]["error.type"] == "ValueError"
    assert failed["events"][0]["attributes"]["exception.message"] == "sorry"
    for name in ("fine", "later"):
        assert by_type[name]["status"]["status_code"] == "UNSET"
        assert "error.type" not in by_type[name]["attributes"]
    assert "business" not in (tmp_path / "spans").read_text()


def test_without_the_extra_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()  # a package without anything in it hides the real one
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise ImportError")
    app(
        tmp_path,
        "import runner, runner.otel\ntasks = runner.Registry()\nrunner.otel.instrument(tasks)\n",
    )
    result = run("check", cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{Path.cwd()}")
    assert result.returncode == 78
    assert "opentelemetry-api is not installed" in result.stderr
