"""What the person at the keys has chosen, and what each key makes of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..text import plural
from . import cells

Record = dict[str, Any]

VIEWS = {1: "overview", 2: "workers", 3: "queues and types", 4: "dead and failing", 5: "log"}
INTERVALS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
NOTE_SECONDS = 8.0
PAGE = 10
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -PAGE, "pagedown": PAGE}


@dataclass(frozen=True, slots=True)
class Row:
    """Something that can be pointed at; `name` tells it apart."""

    kind: Literal["host", "worker", "queue", "type", "dead"]
    name: Any
    record: Record

    @property
    def key(self) -> tuple[str, Any]:
        """What the cursor remembers, so that it stays on the thing and not on the line."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be done: `verb` for the database, or stop, leave, picture for ourselves."""

    verb: Literal[
        "requeue", "discard", "cancel", "pause", "resume", "show", "stop", "leave", "picture"
    ]
    values: Record


@dataclass(frozen=True, slots=True)
class Question:
    """Asked before a deed; only y says yes."""

    text: str
    deed: Deed


@dataclass(frozen=True, slots=True)
class State:
    """The choices of the person."""

    view: int = 1
    cursor: tuple[str, Any] | None = None
    interval: float = 1.0
    paused: bool = False
    help: bool = False
    details: Record | None = None  # title, and lines as (label, text)
    scroll: int = 0  # lines of help, details or log that are above
    question: Question | None = None
    note: str | None = None
    note_until: float = 0.0

    def noting(self, text: str, now: float) -> "State":
        """With a line that is shown for a while."""
        return replace(self, note=text, note_until=now + NOTE_SECONDS)


def at_cursor(state: State, rows: Sequence[Row]) -> int | None:
    """Where the cursor is; the first row when what it was on is gone."""
    if not rows:
        return None
    keys = [row.key for row in rows]
    return keys.index(state.cursor) if state.cursor in keys else None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a key must know beside the state."""

    now: float
    rows: Sequence[Row]
    running: int  # tasks in hand
    stopping: bool
    owns_fleet: bool  # q stops a fleet, instead of leaving a view
    grace_seconds: float = 0.0


def press(state: State, key: str, about: Circumstances) -> tuple[State, Deed | None]:
    """The state after a key, and what is to be done."""
    if state.question is not None:
        return _answer(state, key, about)
    if key == "q":
        return _quit(replace(state, help=False, details=None), about)
    if state.help or state.details is not None:
        return _read_on(state, key), None
    if key in _MOVES or key in ("home", "end"):
        return _move(state, key, about.rows), None
    return _act(state, key, about)


def _answer(state: State, key: str, about: Circumstances) -> tuple[State, Deed | None]:
    question = state.question
    assert question is not None
    if key in ("y", "Y"):
        return replace(state, question=None), question.deed
    return replace(state, question=None).noting("nothing was changed", about.now), None


def _quit(state: State, about: Circumstances) -> tuple[State, Deed | None]:
    if not about.owns_fleet:
        return state, Deed("leave", {})
    deed = Deed("stop", {})
    if not about.running and not about.stopping:
        return state, deed
    if about.stopping:
        text = f"stop at once, and give back {plural(about.running, 'task')}?"
    else:
        text = (
            f"stop? {plural(about.running, 'task')} in hand, up to {about.grace_seconds:g} s to end"
        )
    return replace(state, question=Question(text, deed)), None


def _read_on(state: State, key: str) -> State:
    if key in _MOVES:
        return replace(state, scroll=max(0, state.scroll + _MOVES[key]))
    return replace(state, help=False, details=None, scroll=0)


def _move(state: State, key: str, rows: Sequence[Row]) -> State:
    if state.view == 5:
        return replace(state, scroll=max(0, state.scroll - _MOVES.get(key, 0)))
    if not rows:
        return state
    at = at_cursor(state, rows)
    if key in ("home", "end"):
        at = 0 if key == "home" else len(rows) - 1
    elif at is None:
        at = 0 if _MOVES[key] > 0 else len(rows) - 1
    else:
        at = max(0, min(at + _MOVES[key], len(rows) - 1))
    return replace(state, cursor=rows[at].key)


def _act(state: State, key: str, about: Circumstances) -> tuple[State, Deed | None]:
    at = at_cursor(state, about.rows)
    row = about.rows[at] if at is not None else None
    match key:
        case "?" | "h":
            return replace(state, help=True, scroll=0), None
        case "space":
            return replace(state, paused=not state.paused), None
        case "escape":
            return replace(state, cursor=None, note=None), None
        case "+" | "=" | "-" | "_":
            return _pace(state, key, about.now), None
        case "tab" | "backtab" | "left" | "right":
            step = 1 if key in ("tab", "right") else -1
            return _turn_to(state, (state.view - 1 + step) % len(VIEWS) + 1), None
        case "enter":
            return _details(state, row, about.now)
        case "s":
            return state, Deed("picture", {})
        case "r" | "d" | "p" | "K":
            return _ask(state, key, row, about.now), None
    if key.isdigit() and int(key) in VIEWS:
        return _turn_to(state, int(key)), None
    return state, None


def _turn_to(state: State, view: int) -> State:
    return replace(state, view=view, scroll=0)


def _pace(state: State, key: str, now: float) -> State:
    at = INTERVALS.index(state.interval) + (1 if key in "+=" else -1)
    interval = INTERVALS[max(0, min(at, len(INTERVALS) - 1))]
    return replace(state, interval=interval).noting(f"a look every {interval:g} s", now)


def _details(state: State, row: Row | None, now: float) -> tuple[State, Deed | None]:
    if row is None:
        return state.noting("choose a line with the arrows first", now), None
    task = row.name if row.kind == "dead" else row.record.get("task")
    if task is not None:
        return state, Deed("show", {"id": task})
    lines = [_line(name, value) for name, value in row.record.items()]
    named = next(row.record[one] for one in ("name", "slot", "host") if one in row.record)
    title = f"{row.kind} {named}"
    return replace(state, details={"title": title, "lines": lines}, scroll=0), None


def _line(name: str, value: object) -> tuple[str, object]:
    """A field of a record as a person reads it."""
    label = name.removesuffix("_seconds").replace("_", " ")
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    if name.endswith("_seconds"):
        return label, cells.seconds(value) or None
    return label, cells.size(value) or None if name == "rss" else value


def _ask(state: State, key: str, row: Row | None, now: float) -> State:
    question = None if row is None else _question(key, row)
    if question is None:
        return state.noting(_WANTED[key], now)
    return replace(state, question=question)


_WANTED = {
    "r": "r requeues: choose a dead task, or a type with dead ones",
    "d": "d discards: choose a dead task, or a type with dead ones",
    "p": "p pauses or resumes: choose a queue or a type (view 3)",
    "K": "K kills a worker's task: choose a worker that runs one",
}


def _question(key: str, row: Row) -> Question | None:
    record = row.record
    if key in ("r", "d"):
        verb: Literal["requeue", "discard"] = "requeue" if key == "r" else "discard"
        end = "" if key == "r" else " for good"
        if row.kind == "dead":
            what = f"{verb} task {row.name} ({record['type']}){end}?"
            return Question(what, Deed(verb, {"ids": [row.name]}))
        if row.kind in ("type", "queue") and record["dead"]:
            what = f"{verb} {plural(record['dead'], 'dead task')} of {row.kind} {row.name}{end}?"
            return Question(what, Deed(verb, {row.kind: row.name}))
    if key == "p" and row.kind in ("queue", "type"):
        verb_: Literal["pause", "resume"] = "resume" if record["paused_until"] else "pause"
        return Question(f"{verb_} {row.kind} {row.name}?", Deed(verb_, {row.kind: row.name}))
    if key == "K" and row.kind == "worker" and record["task"] is not None:
        what = (
            f"kill task {record['task']} ({record['type']}) of worker {record['slot']} and cancel it"
            " for good? What it did outside of the database stands"
        )
        return Question(what, Deed("cancel", {"ids": [record["task"]]}))
    return None
