"""Class handlers: how params become instances and back, and what is refused."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pydantic
import pytest

import runner
from runner.errors import AppError, InvalidParams, InvalidTask
from runner.registry import Registry
from runner.task import Task
from tests.unit.test_registry import run

HERE = __file__


@pytest.fixture
def tasks() -> Registry:
    return Registry()


def sent(instance: Any) -> tuple[str, Any]:
    """Type and params of an instance as they are enqueued, read back."""
    values = runner.enqueue_sql(instance)[1]
    return values["type"], json.loads(values["params"])


@dataclass
class Letter:
    to: str
    copies: int = 1
    tags: list[str] = field(default_factory=list)

    def process(self, tx: Any, task: Task) -> Any:
        self.tags.append("seen")
        return self


class Mail(pydantic.BaseModel):
    to: str
    at: datetime

    def process(self, tx: Any, task: Task) -> Any:
        return self


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    at: datetime

    def process(self, tx: Any, task: Task) -> Any:
        return self


class Packet(msgspec.Struct):
    to: str
    at: datetime

    def process(self, tx: Any, task: Task) -> Any:
        return self


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_new_instance_for_every_task(tasks: Registry) -> None:
    tasks.add(Letter)
    first, second = (run(tasks, "Letter", {"to": "a", "copies": 2}) for _ in range(2))
    assert first == second == Letter("a", 2, ["seen"])
    assert first is not second
    assert first.tags is not second.tags


@pytest.mark.parametrize(
    "instance",
    [Letter("a", 3, ["x"]), Mail(to="a", at=NOON), Strict(at=NOON), Packet("a", NOON)],
    ids=lambda each: type(each).__name__,
)
def test_there_and_back(tasks: Registry, instance: Any) -> None:
    cls = type(instance)
    tasks.add(cls)
    name, params = sent(instance)
    assert name == cls.__name__
    assert run(tasks, name, params) == (
        dataclasses.replace(instance, tags=["x", "seen"]) if cls is Letter else instance
    )


@pytest.mark.parametrize(
    ("cls", "params", "message"),
    [
        (Letter, {}, "Letter: missing field to"),
        (Letter, None, "Letter: missing field to"),
        (Letter, {"to": "a", "form": 1, "cc": 2}, "Letter: unknown fields form, cc"),
        (Letter, {"t\n": "a"}, "Letter: missing field to; unknown field t\\n"),
        (Letter, ["a"], "Letter: params are no object but list"),
        (Mail, {"to": 5}, "Mail: to: Input should be a valid string; at: Field required"),
        (
            Strict,
            {"at": "2030-01-01T12:00:00Z", "x": 1},
            "Strict: x: Extra inputs are not permitted",
        ),
        (Packet, {"to": "a"}, "Packet: Object missing required field `at`"),
    ],
    ids=str,
)
def test_params_that_do_not_fit(tasks: Registry, cls: type, params: Any, message: str) -> None:
    tasks.add(cls)
    with pytest.raises(InvalidParams) as failure:
        run(tasks, cls.__name__, params)
    assert str(failure.value) == message


def test_names_of_classes(tasks: Registry) -> None:
    @tasks.task
    @dataclass
    class One:
        name: ClassVar[str] = "send_one"

        def process(self, tx: Any, task: Task) -> str:
            return "one"

    @tasks.task
    class Two:
        name = "send_two"

        def process(self, tx: Any, task: Task) -> str:
            return "two"

    @tasks.task
    @dataclass
    class Three:
        name: str = "of the addressee"

        def process(self, tx: Any, task: Task) -> str:
            return self.name

    assert tasks.types == ["Three", "send_one", "send_two"]
    assert sent(One()) == ("send_one", {})
    assert sent(Two()) == ("send_two", {})
    assert sent(Three("x")) == ("Three", {"name": "x"})
    assert run(tasks, "send_two", {}) == "two"
    assert run(tasks, "Three", {}) == "of the addressee"
    with pytest.raises(InvalidParams, match="Two: unknown field a"):
        run(tasks, "send_two", {"a": 1})


def test_slots_and_inheritance(tasks: Registry) -> None:
    @tasks.task
    @dataclass(slots=True, frozen=True)
    class Base:
        a: int

        def process(self, tx: Any, task: Task) -> Any:
            return self

    @dataclass(frozen=True)
    class Derived(Base):
        b: int = 0

    assert sent(Base(1)) == ("Base", {"a": 1})
    with pytest.raises(InvalidTask, match="Derived is neither text nor registered"):
        sent(Derived(1, 2))
    tasks.add(Derived)
    assert sent(Derived(1, 2)) == ("Derived", {"a": 1, "b": 2})


class NoProcess:
    pass


class Undecorated:
    to: str

    def process(self, tx: Any, task: Task) -> None: ...


class WithInit:
    def __init__(self, to: str) -> None: ...
    def process(self, tx: Any, task: Task) -> None: ...


class MoreFields(Letter):
    more: int


@dataclass
class AsyncProcess:
    async def process(self, tx: Any, task: Task) -> None: ...


@dataclass
class GeneratorProcess:
    def process(self, tx: Any, task: Task) -> Iterator[int]:
        yield 1


@dataclass
class ShortProcess:
    def process(self, tx: Any) -> None: ...


@dataclass
class Hidden:
    secret: dataclasses.InitVar[str]

    def process(self, tx: Any, task: Task) -> None: ...


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (NoProcess, "class NoProcess has no process(self, tx, task)"),
        (Undecorated, "is no dataclass, pydantic model or msgspec struct"),
        (WithInit, "is no dataclass, pydantic model or msgspec struct"),
        (MoreFields, "class MoreFields has fields of its own and no @dataclass"),
        (AsyncProcess, "AsyncProcess.process is async"),
        (GeneratorProcess, "GeneratorProcess.process is a generator"),
        (ShortProcess, "ShortProcess.process must take exactly (self, tx, task)"),
        (Hidden, "class Hidden takes secret, which is no field"),
    ],
)
def test_classes_that_are_refused(tasks: Registry, cls: type, message: str) -> None:
    with pytest.raises(AppError) as refusal:
        tasks.add(cls)
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(f"{HERE}:")


def test_what_cannot_be_enqueued() -> None:
    first, second = Registry(), Registry()

    def twice(tx: Any, task: Task) -> None: ...

    first.add(twice)
    second.add(twice)
    assert runner.enqueue_sql(twice)[1]["type"] == "twice"
    second.add(twice, "other")
    with pytest.raises(InvalidTask, match="twice is registered under more than one name"):
        runner.enqueue_sql(twice)
    with pytest.raises(InvalidTask, match="NoProcess is neither text nor registered"):
        runner.enqueue_sql(NoProcess())
    first.add(Letter)
    with pytest.raises(InvalidTask, match="params: given twice"):
        runner.enqueue_sql(Letter("a"), {"to": "b"})
    with pytest.raises(InvalidTask, match=r"params\.tags: object has no JSON form"):
        runner.enqueue_sql(Letter("a", 1, object()))  # type: ignore[arg-type]
    assert runner.enqueue_sql(Letter, {"to": "b"})[1]["type"] == "Letter"
