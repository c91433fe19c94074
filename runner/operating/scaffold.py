"""Handler stubs for types that are not implemented: names and fields in, Python out. Pure."""

import keyword
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..errors import InvalidTask
from ..fields import check_type
from ..text import safe

SAMPLE_CHARACTERS = 200
HEAD = """\
from dataclasses import dataclass

import runner

tasks = runner.Registry()  # or the one that you have"""
KINDS = {
    "string": "str",
    "boolean": "bool",
    "number": "float",
    "array": "list",
    "object": "dict",
    "null": "None",
}
# Names that a handler's class has already, or that would hide what its text uses.
TAKEN = frozenset({"process", "tx", "task", "self", *KINDS.values()})


@dataclass(frozen=True, slots=True)
class Field:
    """A key of the params, the JSON kinds of its values, and whether every task has it."""

    name: str
    kinds: Sequence[str] = ()
    always: bool = True


@dataclass(frozen=True, slots=True)
class Missing:
    """A type without a handler."""

    type: str
    count: int
    first_seen: str
    sample: str
    fields: Sequence[Field] = ()


def scaffold(missing: Iterable[Missing]) -> str:
    """A module with a stub for each."""
    parts, taken = [HEAD], {"dataclass", "runner", "tasks"}
    for one in missing:
        if not _nameable(one.type):
            parts.append(f"# {one.type[:SAMPLE_CHARACTERS]!a}: no handler can have this name")
            continue
        name = _class_name(one.type, taken)
        taken.add(name)
        parts.append(_stub(one, name))
    return "\n\n\n".join(parts) + "\n"


def _stub(one: Missing, name: str) -> str:
    waiting = "1 task waits" if one.count == 1 else f"{one.count} tasks wait"
    comment = [
        f"# {waiting}, the oldest since {one.first_seen}. Until this is written they spend no attempt;",
        f"# with it in place they fail. Params: {safe(one.sample, SAMPLE_CHARACTERS)}",
        f"@tasks.task({one.type!a})",
    ]
    fits = one.fields and all(_usable(field.name) for field in one.fields)
    body = _as_class(one, name) if fits else _as_function(one, name.lower())
    return "\n".join([*comment, *body])


def _as_class(one: Missing, name: str) -> list[str]:
    fields = sorted(one.fields, key=lambda field: not field.always)  # those with defaults come last
    return [
        "@dataclass",
        f"class {name}:",
        *(f"    {_declared(field)}" for field in fields),
        "",
        "    def process(self, tx, task):",
        f"        raise NotImplementedError({one.type!a})",
    ]


def _as_function(one: Missing, name: str) -> list[str]:
    return [
        f"def {name}(tx, task):",
        f"    raise NotImplementedError({one.type!a})  # task.params",
    ]


def _declared(field: Field) -> str:
    kinds = [KINDS.get(kind, "object") for kind in field.kinds] or ["object"]
    if not field.always and "None" not in kinds:
        kinds.append("None")
    kinds.sort(key=lambda kind: kind == "None")
    return f"{field.name}: {' | '.join(kinds)}{'' if field.always else ' = None'}"


def _nameable(task_type: str) -> bool:
    try:
        check_type(task_type)
    except InvalidTask:
        return False
    return True


def _usable(name: str) -> bool:
    plain = name.isascii() and name.isidentifier() and not name.startswith("__")
    return plain and not keyword.iskeyword(name) and name not in TAKEN


def _class_name(task_type: str, taken: Collection[str]) -> str:
    words = "".join(
        each if each.isascii() and each.isalnum() else " " for each in task_type
    ).split()
    name = "".join(word[0].upper() + word[1:] for word in words)[:60]
    if not name or name[0].isdigit() or keyword.iskeyword(name.lower()):
        name = f"Task{name}"
    number, unique = 1, name
    while unique in taken or unique.lower() in {each.lower() for each in taken}:
        number += 1
        unique = f"{name}{number}"
    return unique
