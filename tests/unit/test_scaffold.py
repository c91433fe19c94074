"""Stubs for what is not implemented can be pasted: they are valid, and take the params that wait."""

import sys
from types import ModuleType
from typing import Any

import pytest

from runner.operating.scaffold import Field, Missing, scaffold
from runner.registry import Registry
from runner.task import Task

SINCE = "2030-01-31T12:00:00+00:00"


def missing(name: str, *fields: Field, sample: str = "{}") -> Missing:
    return Missing(name, 2, SINCE, sample, fields)


def load(text: str) -> Registry:
    """The registry of the module with this text."""
    module = ModuleType("stubs")
    sys.modules["stubs"] = module  # where dataclasses look
    try:
        exec(compile(text, "stubs.py", "exec"), module.__dict__)
    finally:
        del sys.modules["stubs"]
    tasks = module.__dict__["tasks"]
    assert isinstance(tasks, Registry)
    return tasks


def run(tasks: Registry, name: str, params: Any) -> None:
    fields: dict[str, Any] = dict.fromkeys(Task.__dataclass_fields__)
    task = Task(**fields | {"type": name, "params": params})
    with pytest.raises(NotImplementedError) as raised:
        tasks[name].run(None, task)
    assert raised.value.args == (name,)


def test_a_class_with_the_keys_as_fields() -> None:
    text = scaffold(
        [
            missing(
                "resize_photo",
                Field("size", ("number",), always=False),
                Field("path", ("string",)),
                Field("tags", ("array", "null")),
                sample='{"path": "a.jpg"}',
            )
        ]
    )
    assert (
        "class ResizePhoto:\n    path: str\n    tags: list | None\n    size: float | None = None"
        in text
    )
    assert "# 2 tasks wait, the oldest since 2030-01-31T12:00:00+00:00" in text
    assert '{"path": "a.jpg"}' in text
    run(load(text), "resize_photo", {"path": "a.jpg", "tags": []})


@pytest.mark.parametrize("key", ["no-name", "class", "process", "", "é", "__x", "self", "str"])
def test_a_function_where_the_keys_are_no_fields(key: str) -> None:
    tasks = load(scaffold([missing("odd", Field(key, ("string",)), Field("fine", ("string",)))]))
    run(tasks, "odd", {key: "x", "fine": "y"})


NAMES = [
    *(
        "a-b",
        "a_b",
        "aB",
        "1st",
        "?",
        "class",
        "none",
        "ünïcode",
        "x\"'\\",
        "{x}",
        "tasks",
        "runner",
    ),
    *("dataclass", "x" * 255, "Tasks", "Runner", "True", "日本"),
]
IMPOSSIBLE = ["\x1b[31m", "a\nimport os", "\u202e", ""]


def test_any_names_side_by_side() -> None:
    tasks = load(scaffold([missing(name, sample=name) for name in NAMES + IMPOSSIBLE]))
    assert tasks.types == sorted(NAMES)


def test_fields_that_hide_the_names_of_types() -> None:
    """A field called `list` must not be what the next annotation means."""
    text = scaffold([missing("t", Field("list", ("array",), False), Field("other", ("array",)))])
    run(load(text), "t", {"other": []})
