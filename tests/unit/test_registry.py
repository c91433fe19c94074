"""What can be registered, what is refused with its place, and how params become instances."""

import contextlib
import dataclasses
import functools
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pydantic
import pytest

import runner
from runner import models
from runner.backoff import Backoff
from runner.errors import AppError, InvalidParams, InvalidTask
from runner.registry import Registry
from runner.task import Task

HERE = __file__


@pytest.fixture
def tasks() -> Registry:
    return Registry()


def run(tasks: Registry, name: str, params: Any) -> Any:
    return tasks[name].run("tx", Task(1, name, params))


def sent(instance: Any) -> tuple[str, Any]:
    """Type and params of an instance as they are enqueued, read back."""
    import json

    values = runner.enqueue_sql(instance)[1]
    return values["type"], json.loads(values["params"])


# -- functions ------------------------------------------------------------------------------------


def test_functions(tasks: Registry) -> None:
    @tasks.task
    def plain(tx: Any, task: Task) -> Any:
        return tx, task.params

    @tasks.task("named", max_attempts=3, timeout="2m", backoff="2s:8s", retry_on=OSError)
    def other(tx: Any, task: Task) -> None: ...

    assert run(tasks, "plain", 7) == ("tx", 7)
    assert tasks.types == ["named", "plain"]
    named = tasks["named"]
    assert (named.max_attempts, named.timeout, named.backoff) == (3, 120.0, Backoff(2, 8))
    assert named.retry_on == (OSError,)
    assert named.place.startswith(f"{HERE}:")
    assert runner.enqueue_sql(plain, {"a": 1})[1]["type"] == "plain"


def test_other_callables(tasks: Registry) -> None:
    class Callable_:
        def __call__(self, tx: Any, task: Task) -> str:
            return "called"

    def three(extra: int, tx: Any, task: Task) -> int:
        return extra

    tasks.add(Callable_(), "object")
    tasks.add(functools.partial(three, 3), "partial")
    tasks.add(lambda tx, task, more=1: more, "lambda")
    assert [run(tasks, name, {}) for name in ("object", "partial", "lambda")] == ["called", 3, 1]


def test_a_third_argument_with_a_model(tasks: Registry) -> None:
    @tasks.task
    def send(tx: Any, task: Task, letter: Letter) -> Any:
        return letter

    @tasks.task
    def later(tx: Any, task: Task, letter: "Letter") -> Any:
        return letter

    assert run(tasks, "send", {"to": "a"}) == run(tasks, "later", {"to": "a"}) == Letter("a")
    with pytest.raises(InvalidParams, match="Letter: missing field to"):
        run(tasks, "send", {})


def test_two_handlers_of_one_name(tasks: Registry) -> None:
    tasks.add(lambda tx, task: None, "same")
    with pytest.raises(AppError, match=rf"{HERE}:\d+: two handlers are called same, .*{HERE}:\d+$"):
        tasks.add(lambda tx, task: None, "same")


async def coroutine(tx: Any, task: Any) -> None: ...


async def async_generator(tx: Any, task: Any) -> AsyncIterator[int]:
    yield 1


def generator(tx: Any, task: Any) -> Iterator[int]:
    yield 1


class AsyncCallable:
    async def __call__(self, tx: Any, task: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (coroutine, "handler coroutine is async"),
        (async_generator, "handler async_generator is async"),
        (functools.partial(coroutine, 1), "is async"),
        (AsyncCallable(), "handler AsyncCallable is async"),
        (generator, "handler generator is a generator"),
        (lambda: None, "must take exactly (tx, task)"),
        (lambda tx: None, "must take exactly (tx, task)"),
        (lambda tx, task, more: None, "must take exactly (tx, task)"),
        (lambda tx, task, *, more: None, "must take exactly (tx, task)"),
        (7, "cannot be called"),
    ],
    ids=str,
)
def test_functions_that_are_refused(tasks: Registry, handler: Any, message: str) -> None:
    with pytest.raises(AppError) as refusal:
        tasks.add(handler)
    assert message in str(refusal.value)
    assert len(tasks) == 0
    if handler != 7:
        assert str(refusal.value).startswith(f"{HERE}:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts: must be from 1"),
        ({"max_attempts": True}, "max_attempts: bool is no integer"),
        ({"max_attempts": "3"}, "max_attempts: str is no integer"),
        ({"timeout": 0}, "timeout: must be above 0"),
        ({"timeout": -1}, "timeout: must be above 0"),
        ({"timeout": float("nan")}, "timeout: must be above 0"),
        ({"timeout": "soon"}, "timeout: 'soon' is no duration"),
        ({"timeout": []}, "timeout: list is no number of seconds"),
        ({"backoff": "8s:2s"}, "backoff: '8s:2s': the first delay"),
        ({"backoff": 3}, "backoff: int is neither a Backoff nor text"),
        ({"retry_on": "OSError"}, "retry_on: 'OSError' is no exception class"),
        ({"discard_on": (OSError, 1)}, "discard_on: 1 is no exception class"),
        ({"tiemout": 1}, "unknown option tiemout"),
        ({"run": print}, "unknown option run"),
    ],
    ids=str,
)
def test_options_that_are_refused(tasks: Registry, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AppError) as refusal:
        tasks.task("hello", **options)(lambda tx, task: None)
    assert f": {message}" in str(refusal.value)
    assert str(refusal.value).startswith(f"{HERE}:")


def test_names_that_are_refused(tasks: Registry) -> None:
    for name in ("", "a\nb", "a" * 256):
        with pytest.raises(AppError, match="type: "):
            tasks.add(lambda tx, task: None, name)


# -- classes --------------------------------------------------------------------------------------


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


# -- hooks ----------------------------------------------------------------------------------------


def test_hooks(tasks: Registry) -> None:
    seen: list[str] = []

    @tasks.on_worker_start
    def begin() -> None:
        seen.append("start")

    @tasks.on_worker_stop
    def end() -> None: ...

    @tasks.on_error
    def report(task: Task, error: BaseException) -> None: ...

    @tasks.around
    @contextlib.contextmanager
    def trace(task: Task) -> Iterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    @tasks.around
    def bare(task: Task) -> Iterator[None]:
        seen.append("bare")
        yield

    tasks.hooks.on_worker_start[0]()
    for hook in tasks.hooks.around:
        with hook(Task(1, "a", {})):
            pass
    assert seen == ["start", "in", "out", "bare"]
    assert tasks.hooks.on_worker_stop == [end]
    assert tasks.hooks.on_error == [report]


@pytest.mark.parametrize("kind", ["on_worker_start", "on_worker_stop", "on_error", "around"])
def test_hooks_that_are_refused(tasks: Registry, kind: str) -> None:
    with pytest.raises(AppError, match=rf"{HERE}:\d+: {kind}: .* must take \("):
        getattr(tasks, kind)(lambda a, b, c: None)
    with pytest.raises(AppError, match=f"{kind}: coroutine is async"):
        getattr(tasks, kind)(coroutine)
    assert getattr(tasks.hooks, kind) == []


# -- imports --------------------------------------------------------------------------------------


def test_importing_is_light() -> None:
    """Neither a driver nor a model library comes with it, and enqueueing needs no psycopg of ours."""
    code = """
import sys, runner
assert not {"runner.enqueueing", "runner.registry"} & set(sys.modules)
runner.enqueue_sql("hello"), runner.Registry, runner.Client, runner.enqueue_many
heavy = {"psycopg", "psycopg_pool", "psycopg2", "asyncpg", "sqlalchemy", "django", "pydantic"}
heavy |= {"msgspec", "click", "rich", "asyncio"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert set(runner.__all__) <= set(dir(runner))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_public_names() -> None:
    for name in runner.__all__:
        assert getattr(runner, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        runner.nothing  # noqa: B018
    assert models.MARK == "__runner_type__"
