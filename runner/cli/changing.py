"""Changing tasks by hand, named ones or whatever a filter means, and telling what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NothingChanged
from ..operating.explain import Gone, explain_gone
from ..text import plural
from . import asking, output, problems, records
from .settings import Settings

if TYPE_CHECKING:
    from ..store.operate import Change
    from ..store.tasks import Connection, Filter


@dataclass(frozen=True)
class Deed:
    """What is done: its verb, the word for it when done, what may undergo it, and how."""

    verb: str
    done: str
    states: Sequence[str]
    change: "Change"
    must_be: str = "dead"  # what a task is told that it is not


@dataclass(frozen=True)
class Doing:
    """One command at it."""

    conn: "Connection"
    settings: Settings
    deed: Deed
    as_json: bool

    def preview(self, chosen: "Filter") -> None:
        """Show what would be changed."""
        from ..store import tasks

        count = tasks.count(self.conn, chosen)
        records.write_tasks(tasks.tasks(self.conn, chosen), 0, self.as_json, self.settings)
        problems.notice(f"would {self.deed.verb} {plural(count, 'task')}", self.settings)

    def to_all(self, chosen: "Filter", yes: bool) -> None:
        """Change whatever the filter means, after asking where that is more than one; NothingChanged
        when none was."""
        from ..store import operate, tasks

        count = tasks.count(self.conn, chosen)
        if count > 1:
            asking.confirm(f"{self.deed.verb} {plural(count, 'task')}", yes)
        done = sum(operate.change_all(self.conn, chosen, self.deed.change))
        left = max(0, count - done)
        if done:
            also = f", {left} were locked or changed meanwhile" if left else ""
            self.tell(done, left, also)
            return
        if self.as_json:
            self.tell(done, left)
        why = f"{plural(left, 'task')} locked or changed meanwhile" if left else "no dead task fits"
        raise NothingChanged(f"{why}: nothing changed")

    def to_named(self, ids: Sequence[int], yes: bool) -> None:
        """Change these; NothingChanged when one of them could not be."""
        from ..store import operate, tasks

        found = tasks.states(self.conn, ids)
        fit = sum(state in self.deed.states for state in found.values())
        if fit > 1:
            asking.confirm(f"{self.deed.verb} {plural(fit, 'task')}", yes)
        done, others = operate.change_named(self.conn, ids, self.deed.states, self.deed.change)
        self.warn(found, done)
        self.tell(len(done), len(others))
        if others:
            *first, last = (self.why_not(*other) for other in others.items())
            for line in first:
                problems.tell(f"runner: error: {line}", self.settings)
            raise NothingChanged(last)

    def warn(self, found: dict[int, str], done: Sequence[int]) -> None:
        """What a removal cannot undo."""
        for task_id in done:
            if found.get(task_id) == "running":
                problems.notice(
                    f"task {task_id} was running: its worker is killed when it renews its lease;"
                    " effects outside of the database until then stand",
                    self.settings,
                )

    def why_not(self, task_id: int, state: str | None) -> str:
        """Why one that was named stayed as it is."""
        from ..store import tasks

        if state is None:
            fate = tasks.fate(self.conn, task_id)
            gone = Gone(task_id, fate.issued(task_id), fate.how, fate.who, fate.at)
            return f"{explain_gone(gone).sentence}: nothing changed"
        if state in self.deed.states:
            return f"task {task_id} is locked just now: nothing changed"
        return f"task {task_id} is {state}, not {self.deed.must_be}: nothing changed"

    def tell(self, done: int, skipped: int, also: str = "") -> None:
        """How many were changed."""
        if self.as_json:
            output.write_json({self.deed.done: done, "skipped": skipped})
        elif done or not skipped or also:
            problems.notice(f"{self.deed.done} {plural(done, 'task')}{also}", self.settings)
