"""A task on its way in: the fields of `enqueue`, judged, and ready for any driver."""

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ..errors import InvalidTask
from ..fields import (
    check_delay,
    check_key,
    check_max_attempts,
    check_priority,
    check_queue,
    check_run_at,
    check_type,
)
from ..payload import dumps
from ..registry.models import params_of, type_of
from ..text import class_name


class _Null:
    """The JSON null as params: None as an argument is an argument left out, as NULL is in SQL."""


NULL: Any = _Null()


class Envelope(NamedTuple):
    """One task as it will be stored. `params` is JSON text, `run_at` ISO 8601 in UTC."""

    type: str
    params: str = "{}"
    queue: str = "default"
    priority: int = 5
    run_at: str | None = None
    delay: float | None = None  # seconds from now on the server's clock
    key: str | None = None
    unique: bool = False
    max_attempts: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to be looked up or computed for it."""
        return not (self.unique or self.key or self.run_at or self.delay is not None)


def seal(
    task: Any,
    params: Any = None,
    *,
    queue: str = "default",
    priority: int = 5,
    run_at: datetime | None = None,
    delay: float | timedelta | None = None,
    key: str | None = None,
    unique: bool = False,
    max_attempts: int | None = None,
) -> Envelope:
    """Judge the arguments of `enqueue`; InvalidTask says what is wrong with which."""
    if run_at is not None and delay is not None:
        raise InvalidTask("run_at and delay: give one of them")
    if not isinstance(unique, bool):
        raise InvalidTask(f"unique: {class_name(unique)} is no bool")
    task_type, given = _addressed(task, params)
    return Envelope(
        _plain(check_type(task_type)),
        "{}" if given is None else dumps(None if given is NULL else given),
        _plain(check_queue(queue)),
        check_priority(priority),
        None if run_at is None else check_run_at(run_at).astimezone(UTC).isoformat(),
        None if delay is None else check_delay(delay),
        None if key is None else _plain(check_key(key)),
        unique,
        None if max_attempts is None else check_max_attempts(max_attempts),
    )


def _plain(text: str) -> str:
    # Drivers have their own ideas of a StrEnum or a SafeString.
    return str.__str__(text)


def _addressed(task: Any, params: Any) -> tuple[str, Any]:
    """Type and params of what was given: a name, a registered handler, or an instance of one."""
    if isinstance(task, str):
        return task, params
    if isinstance(task, type) or inspect.isroutine(task):
        return type_of(task), params
    if params is not None:
        raise InvalidTask(f"params: given twice, the {class_name(task)} has its own")
    return type_of(task), params_of(task)


def exactly(params: Any) -> Any:
    """Params where nothing can have been left out: None is the JSON null."""
    return NULL if params is None else params


def from_item(item: Any, type: str | None, defaults: Mapping[str, Any]) -> Envelope:
    """Judge one item of `enqueue_many`: an instance, a pair, a dict of fields, or params alone."""
    if isinstance(item, Envelope):
        return item
    if type is not None:
        return seal(type, exactly(item), **defaults)
    if isinstance(item, tuple):
        if len(item) != 2:
            raise InvalidTask(f"a pair (type, params) is needed, not {len(item)} values")
        return seal(*item, **defaults)
    if isinstance(item, Mapping):
        return from_fields(item, defaults)
    if isinstance(item, str | list | int | float | None):
        raise InvalidTask(f"{class_name(item)} is no task; params alone need type=")
    return seal(item, **defaults)


_FIELDS = frozenset(Envelope._fields)


def from_fields(item: Mapping[str, Any], defaults: Mapping[str, Any]) -> Envelope:
    """Judge an envelope: a dict with the fields of `enqueue`; a null is a field left out. `run_at` may
    be ISO 8601 text."""
    for name in item:
        if name not in _FIELDS:
            raise InvalidTask(
                f"{name if isinstance(name, str) else class_name(name)}: no such field"
            )
    if item.get("type") is None:
        raise InvalidTask("type: missing")
    given = {
        name: value
        for name, value in item.items()
        if name not in ("type", "params") and value is not None
    }
    if isinstance(given.get("run_at"), str):
        given["run_at"] = _moment(given["run_at"])
    if "run_at" in given or "delay" in given:
        defaults = {k: v for k, v in defaults.items() if k not in ("run_at", "delay")}
    return seal(item["type"], item.get("params"), **{**defaults, **given})


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTask("run_at: no ISO 8601 time, as in 2030-01-31T12:00:00Z") from None
