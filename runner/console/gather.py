"""The child that asks the database: a request a line comes in, an answer a line goes out.

It is a process of its own because a database that hangs may hold up whoever asks it, for minutes, and
the console must go on reading keys and log lines.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import psycopg

from ..clock import now
from ..errors import RunnerError
from ..operating.explain import Gone, explain, explain_gone
from ..store import looking, operate, overview, schema, tasks
from ..store.connect import connect
from ..store.facts import facts
from ..text import error_text, plural

Record = dict[str, Any]
Connection = psycopg.Connection[Any]

LAST_DEAD, FAILING = 50, 20
SHARE = 20  # counting takes at most one part in so many of the time
QUERY_SECONDS = 20.0
AGAIN_SECONDS = 1.0  # between two attempts to connect


class Gatherer:
    """Answers with what the database says, or with why it does not."""

    def __init__(self, url: str, who: str) -> None:
        self._url = url
        self._who = who
        self._conn: Connection | None = None
        self._tried_at = float("-inf")
        self._counts: list[Record] = []
        self._slow: Record = {}
        self._count_again_at = 0.0

    def answer(self, request: Record) -> Record:
        """The answer to one request; trouble instead of an exception."""
        try:
            return self._answer(self._connected(), request)
        except RunnerError as error:
            return {"trouble": str(error)}
        except psycopg.Error as error:
            if self._conn is not None and (self._conn.closed or self._conn.broken):
                self._conn = None
            return {"trouble": error_text(error, 200), "kept": self._conn is not None}

    def close(self) -> None:
        """End the connection."""
        if self._conn is not None:
            self._conn.close()

    def _connected(self) -> Connection:
        if self._conn is None:
            wait = self._tried_at + AGAIN_SECONDS - now()
            time.sleep(max(0.0, wait))
            self._tried_at = now()
            self._conn = connect(self._url, "console", statement_seconds=QUERY_SECONDS)
            self._count_again_at = 0.0
            try:
                schema.check(self._conn)
            except RunnerError:
                self._conn.close()
                self._conn = None
                raise
        return self._conn

    def _answer(self, conn: Connection, request: Record) -> Record:
        verb = request["ask"]
        if verb == "look":
            return {"look": self._look(conn, request["interval"])}
        self._count_again_at = 0.0  # whoever changed something wants to see it
        if verb == "show":
            return {"details": _details(conn, request["id"])}
        return {"said": _DEEDS[verb](conn, request, self._who)}

    def _look(self, conn: Connection, interval: float) -> Record:
        begun = now()
        if begun >= self._count_again_at:
            self._counts = overview.counts(conn)
            self._slow = {
                "dead": looking.last_dead(conn, LAST_DEAD),
                "failing": looking.failing(conn, FAILING),
                "counted_at": begun,
            }
            took = now() - begun
            self._count_again_at = begun + max(interval * 0.9, SHARE * took)
        taken_at = now()
        status = looking.look(conn, self._counts)
        return self._slow | {"status": status, "taken_at": taken_at, "where": _where(conn)}


def _where(conn: Connection) -> str:
    """The database, shortly: a socket's directory says nothing that a person remembers."""
    info = conn.info
    at = "" if info.host.startswith("/") or not info.host else f"@{info.host}"
    return f"{info.dbname}{at}"


def _details(conn: Connection, task_id: int) -> Record:
    """One task whole, with the sentence that explains it."""
    found = next(tasks.tasks(conn, tasks.Filter(ids=[task_id]), limit=1, whole=True), None)
    about = facts(conn, task_id)
    told = explain_gone(about) if isinstance(about, Gone) else explain(about)
    lines: list[tuple[str, object]] = [("why", told.sentence)]
    for name, value in (found or {}).items():
        lines.append((name.replace("_", " "), _laid_out(value) if name == "params" else value))
    return {"title": f"task {task_id}", "lines": lines}


def _laid_out(params: object) -> object:
    """JSON text, a line a field; as it is where Python does not read it (a number too long)."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(json.loads(str(params)), ensure_ascii=False, indent=1)
    return params


def _change(state: str, done: str) -> Callable[[Connection, Record, str], str]:
    """A deed on tasks by their ids, or on all the dead of a type or queue."""

    def deed(conn: Connection, request: Record, who: str) -> str:
        change = operate.requeue if done == "requeued" else operate.remover(done, who)
        if "ids" in request:
            changed, others = operate.change_named(conn, request["ids"], [state], change)
            return _said(done, len(changed), others)
        chosen = tasks.Filter(
            states=[state],
            types=[request["type"]] if "type" in request else None,
            queues=[request["queue"]] if "queue" in request else None,
        )
        return _said(done, sum(operate.change_all(conn, chosen, change)), {})

    return deed


def _said(done: str, changed: int, others: dict[int, str | None]) -> str:
    for task_id, state in others.items():
        return f"nothing changed: task {task_id} is {state or 'gone'}"
    return f"{done} {plural(changed, 'task')}"


def _pause(conn: Connection, request: Record, who: str) -> str:
    operate.pause(conn, request.get("queue"), request.get("type"), who=who)
    return f"paused {request.get('queue') or request.get('type')}"


def _resume(conn: Connection, request: Record, who: str) -> str:
    operate.resume(conn, request.get("queue"), request.get("type"))
    return f"resumed {request.get('queue') or request.get('type')}"


_DEEDS: dict[str, Callable[[Connection, Record, str], str]] = {
    "requeue": _change("dead", "requeued"),
    "discard": _change("dead", "discarded"),
    "cancel": _change("running", "cancelled"),
    "pause": _pause,
    "resume": _resume,
}


def serve(url: str, who: str, end: socket.socket) -> None:
    """Answer until the other end is closed."""
    gatherer = Gatherer(url, who)
    with contextlib.suppress(OSError), end.makefile("rwb") as stream:
        for line in stream:
            answer = gatherer.answer(json.loads(line))
            stream.write(json.dumps(answer, default=str).encode() + b"\n")
            stream.flush()
