"""What can be registered, what is refused with its place, and how params become instances."""

import contextlib
import functools
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import runner
from runner.backoff import Backoff
from runner.errors import AppError, InvalidParams
from runner.registry import Registry, models
from runner.task import Task

HERE = __file__


@pytest.fixture
def tasks() -> Registry:
    return Registry()


def run(tasks: Registry, name: str, params: Any) -> Any:
    return tasks[name].run("tx", Task(1, name, params))


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


@dataclass
class Letter:
    to: str


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
