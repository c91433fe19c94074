"""Figures against the truth in the database, read by the parser of a real Prometheus client."""

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.commands import error_of, run
from tests.fleets import Work, running, wait_registered, work
from tests.servers import wait_until

pytestmark = [pytest.mark.db, pytest.mark.process]
EVIL = 'a"b\\c\nd\x1b[31m\u2028\U0001f600'
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(values: Values, name: str, **labels: str) -> float:
    return values[f"runner_{name}", frozenset(labels.items())]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def fetched(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def stage(queue: Work) -> None:
    """Some of everything: 2 running, 3 dead, some scheduled, unknown and paused."""
    queue.add("sleepy", 2, seconds=60)
    queue.add("boom", 3)
    queue.add("noop", 40)
    queue.add(EVIL, 4)
    queue.conn.execute(
        "insert into runner.task (task_type, run_at) select 'noop', now() + interval '1 day'"
        " from generate_series(1, 5)"
    )
    queue.conn.execute("insert into runner.task (queue, task_type) values ('other', 'ordinary')")
    queue.conn.execute("insert into runner.pause (queue) values ('other')")


def settled(queue: Work) -> bool:
    counted = queue.conn.execute("select coalesce(sum(done + failed), 0) from runner.tally")
    states = queue.states()
    return (states["dead"], states["running"]) == (3, 2) and counted.fetchone() == (49,)


def test_figures_are_true_wherever_they_are_shown(fresh: str, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "runner.prom"
    options = ("--metrics", f":{port}", "--metrics-file", str(file))
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=3) as fleet:
        wait_registered(queue, 3)
        stage(queue)
        wait_until(lambda: settled(queue), 30, "two run, all else has ended")
        _holds(parsed(run("metrics", url=fresh).stdout))
        _holds(parsed(_fresh_page(port)))
        _status_holds(queue, json.loads(run("status", "--json", url=fresh).stdout))
        _workers_hold(queue, run("workers", "--json", url=fresh).stdout)
        assert fetched(port, "/health") == (200, "ok\n")
        assert fetched(port, "/etc/passwd")[0] == 404
        queue.conn.execute("delete from runner.task where task_type = 'sleepy'")
        assert fleet.stop() == 0
        values = parsed(file.read_text())
        assert value(values, "attempts_total", type="noop", end="done") == 40
        assert value(values, "tasks", queue="default", state="dead") == 3
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".runner")] == []


def _fresh_page(port: int) -> str:
    """One that was made after this call: pages are a second old at most."""
    old = fetched(port, "/metrics")[1]
    try:
        wait_until(lambda: fetched(port, "/metrics")[1] != old, 3)
    except AssertionError:
        pass  # nothing has changed
    return fetched(port, "/metrics")[1]


def _holds(values: Values) -> None:
    assert value(values, "up") == 1
    states = {"ready": 4, "scheduled": 5, "running": 2, "dead": 3}
    for state, count in states.items():
        assert value(values, "tasks", queue="default", state=state) == count, state
    assert value(values, "tasks", queue="other", state="ready") == 1
    assert value(values, "paused", queue="other") == 1
    assert value(values, "paused", queue="default") == 0
    assert value(values, "unknown_tasks", type=_as_shown(EVIL)) == 4
    assert value(values, "leases", state="active") == 3
    assert value(values, "workers", host=socket.gethostname(), state="running") == 2
    assert value(values, "workers", host=socket.gethostname(), state="idle") == 1
    assert value(values, "workers_rss_bytes", host=socket.gethostname()) >= 0
    assert value(values, "attempts_total", type="noop", end="done") == 40
    assert value(values, "attempts_total", type="boom", end="failed") == 9
    assert value(values, "dead_total", type="boom") == 3
    assert value(values, "attempt_seconds_count", type="noop") == 40
    assert value(values, "attempt_seconds_bucket", type="boom", le="+Inf") == 9
    bounds = [
        (float(dict(labels)["le"]), count)
        for (name, labels), count in values.items()
        if name == "runner_attempt_seconds_bucket" and ("type", "noop") in labels
    ]
    counts = [count for _, count in sorted(bounds)]
    assert counts == sorted(counts)
    assert len(counts) > 10


def _as_shown(name: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):x}" for c in name)


def _status_holds(queue: Work, seen: dict[str, Any]) -> None:
    states = queue.states()
    for state in ("ready", "scheduled", "running", "dead"):
        assert seen[state] == states[state]
    assert (seen["unknown"], seen["leases_active"], seen["leases_expired"]) == (4, 3, 0)
    assert seen["done_per_second"] > 0


def _workers_hold(queue: Work, lines: str) -> None:
    seen = {one["pid"]: one for one in map(json.loads, lines.splitlines())}
    truth = queue.conn.execute(
        """select w.pid, t.task_id, t.task_type from runner.worker w
           left join runner.task t on t.lease_owner = w.worker_id"""
    ).fetchall()
    assert {(pid, one["task"], one["type"]) for pid, one in seen.items()} == set(truth)
    assert sum(one["state"] == "running" for one in seen.values()) == 2
    # What has ended since the last renewal is not written yet.
    assert sum(one["done"] for one in seen.values()) <= 40


def test_nobody_who_reads_slowly_holds_up_another_for_long(fresh: str, tmp_path: Path) -> None:
    port = free_port()
    options = ("--metrics", f":{port}")
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=1) as fleet:
        wait_registered(queue, 1)
        wait_until(lambda: _answers(port), 20, "it serves")
        with socket.create_connection(("127.0.0.1", port)) as silent:
            assert fetched(port, "/health")[0] == 200
            silent.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert fleet.stop() == 0


def _answers(port: int) -> bool:
    try:
        return fetched(port, "/health")[0] == 200
    except OSError:
        return False


def test_an_outage_is_told_and_over(fresh: str, tmp_path: Path) -> None:
    port = free_port()
    options = ("--metrics", f":{port}")
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=1) as fleet:
        wait_until(lambda: _answers(port), 20, "it serves")
        name = queue.conn.info.dbname
        with psycopg.connect(fresh.replace(name, "postgres"), autocommit=True) as admin:
            admin.execute(f"alter database {name} allow_connections false")
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'runner metrics'"
            )
            wait_until(lambda: fetched(port, "/health")[0] == 503, 20, "told")
            assert value(parsed(fetched(port, "/metrics")[1]), "up") == 0
            admin.execute(f"alter database {name} allow_connections true")
        wait_until(lambda: _answers(port), 20, "back")
        assert fleet.stop() == 0


def test_an_address_that_cannot_be_had_is_told_at_once(fresh: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ("-A", "tests.apps.chores", "--metrics", f":{port}")
        result = run("start", *options, url=fresh, cwd=tmp_path, PYTHONPATH=str(Path.cwd()))
    assert result.returncode == 78
    assert error_of(result).startswith(f"cannot serve metrics on 127.0.0.1:{port}")


def test_the_file_is_whole_or_the_old_one(fresh: str, tmp_path: Path) -> None:
    file = tmp_path / "x.prom"
    run("metrics", "--file", str(file), url=fresh)
    assert value(parsed(file.read_text()), "up") == 1
    assert file.stat().st_mode & 0o777 == 0o644
    result = run("metrics", "--file", str(tmp_path / "nowhere" / "x"), url=fresh)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
