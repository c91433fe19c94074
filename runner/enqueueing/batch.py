"""Many judged tasks, kept as the text that is sent: COPY's for plain ones, JSON rows for others."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InvalidTask
from .envelope import Envelope, from_item

_NULL = "\\N"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Batch:
    """Tasks to be added in one statement."""

    def __init__(self) -> None:
        self._lines = io.BytesIO()
        self._rows: list[str] = []
        self.size = 0

    def add(self, task: Envelope) -> None:
        """Take in one more."""
        self.size += 1
        if task.is_plain:
            self._lines.write(_copy_line(task))
        else:
            self._rows.append(_row(task))

    @property
    def is_plain(self) -> bool:
        """Whether COPY will do: no task has a key or a time, and none is unique."""
        return not self._rows

    def copy_data(self) -> io.BytesIO:
        """The plain tasks as COPY takes them."""
        self._lines.seek(0)
        return self._lines

    def rows(self) -> dict[str, str]:
        """All tasks, as the statement takes them."""
        plain = (_row_of_line(line) for line in self.copy_data())
        return {"rows": "[" + ",".join([*plain, *self._rows]) + "]"}


def gather(items: Iterable[Any], type: str | None, defaults: Mapping[str, Any]) -> Batch:
    """Judge all items of `enqueue_many`; InvalidTask names the first bad one by its number."""
    batch = Batch()
    for task in _sealed(items, type, defaults):
        batch.add(task)
    return batch


def _sealed(
    items: Iterable[Any], type: str | None, defaults: Mapping[str, Any]
) -> Iterator[Envelope]:
    for number, item in enumerate(items, 1):
        try:
            yield from_item(item, type, defaults)
        except InvalidTask as error:
            raise InvalidTask(f"item {number}: {error}", hint=error.hint) from None


def _copy_line(task: Envelope) -> bytes:
    # Of what COPY's text format would misread only backslashes can occur: JSON text has no control
    # characters, and names with them are refused.
    text = f"{task.queue}\t{task.type}\t{task.params}\t{task.priority}".replace("\\", "\\\\")
    most = _NULL if task.max_attempts is None else task.max_attempts
    return f"{text}\t{most}\n".encode()


def _row_of_line(line: bytes) -> str:
    text, _, most = line.decode().rstrip("\n").rpartition("\t")
    queue, type, params, priority = text.replace("\\\\", "\\").split("\t")
    return _row(
        Envelope(
            type, params, queue, int(priority), max_attempts=None if most == _NULL else int(most)
        )
    )


def _row(task: Envelope) -> str:
    given = {
        "type": task.type,
        "queue": task.queue,
        "priority": task.priority,
        "run_at": task.run_at,
        "delay": task.delay,
        "key": task.key,
        "only_one": task.unique,
        "max_attempts": task.max_attempts,
    }
    return f'{{"params":{task.params},{_encode(given)[1:]}'
