"""The registry: task types and the handlers that run them."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from .backoff import Backoff
from .errors import AppError
from .task import Task

_F = TypeVar("_F", bound=Callable[..., Any])
DEFAULT_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Handler:
    """What runs tasks of one type, and under which limits.

    `timeout` in seconds, None for the fleet's default. `backoff` None: the fleet's.
    """

    name: str
    run: Callable[[Any, Task], Any]
    place: str  # file:line, for messages
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: float | None = None
    backoff: Backoff | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    discard_on: tuple[type[BaseException], ...] = ()


class Registry:
    """Handlers by task type; the object that an app module defines.

    ::

        tasks = runner.Registry()

        @tasks.task("resize_photo", max_attempts=5, timeout=60)
        def resize_photo(tx, task): ...
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    @overload
    def task(self, name: _F, /) -> _F: ...
    @overload
    def task(self, name: str | None = None, /, **options: Any) -> Callable[[_F], _F]: ...

    def task(self, name: Any = None, /, **options: Any) -> Any:
        """Register the decorated handler; its name defaults to the function's.

        Options: max_attempts, timeout (seconds), backoff, retry_on, discard_on.
        """
        if callable(name):
            self.add(name)
            return name

        def register(handler: _F) -> _F:
            self.add(handler, name, **options)
            return handler

        return register

    def add(self, handler: Callable[..., Any], name: str | None = None, **options: Any) -> None:
        """Register a handler without a decorator; AppError names the place of what is wrong."""
        place = _place_of(handler)
        name = name or str(getattr(handler, "__name__", "") or type(handler).__name__)
        if name in self._handlers:
            raise AppError(
                f"two handlers are called {name}: {self._handlers[name].place} and {place}"
            )
        if unknown := set(options) - set(Handler.__dataclass_fields__) | {"run", "place"} & set(
            options
        ):
            raise AppError(f"{place}: unknown option {sorted(unknown)[0]} of handler {name}")
        _check_callable(handler, name, place)
        self._handlers[name] = Handler(name, handler, place, **options)

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._handlers

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)

    @property
    def types(self) -> list[str]:
        """The task types with a handler, sorted."""
        return sorted(self._handlers)


def _check_callable(handler: Callable[..., Any], name: str, place: str) -> None:
    if inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler):
        raise AppError(f"{place}: handler {name} is async; handlers are plain functions")
    if inspect.isgeneratorfunction(handler):
        raise AppError(f"{place}: handler {name} is a generator; handlers are plain functions")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # built in: nothing to see
    try:
        signature.bind(None, None)
    except TypeError:
        raise AppError(f"{place}: handler {name}{signature} must take exactly (tx, task)") from None


def _place_of(handler: object) -> str:
    try:
        plain: Any = inspect.unwrap(handler)  # type: ignore[arg-type]
        lines = inspect.getsourcelines(plain)
        return f"{inspect.getsourcefile(plain)}:{lines[1]}"
    except (TypeError, OSError):
        return getattr(handler, "__module__", None) or "?"
