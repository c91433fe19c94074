"""The registry: task types and the handlers that run them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ..backoff import Backoff
from ..errors import AppError, InvalidTask
from ..fields import check_type
from ..task import Task
from .hooks import ARGUMENTS, Hooks, as_context_manager
from .inspection import is_async, mark, name_of, place_of, run_of_class, run_of_function, takes
from .options import judged

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
    group: bool = False  # short, effects in the database only: a batch shares one transaction


class Registry:
    """Handlers by task type; the object that an app module defines.

    ::

        tasks = runner.Registry()

        @tasks.task("resize_photo", max_attempts=5, timeout=60)
        def resize_photo(tx, task): ...
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.hooks = Hooks()

    @overload
    def task(self, name: _F, /) -> _F: ...
    @overload
    def task(self, name: str | None = None, /, **options: Any) -> Callable[[_F], _F]: ...

    def task(self, name: Any = None, /, **options: Any) -> Any:
        """Register the decorated handler: a function, or a class whose fields are the params.

        A function is called with `(tx, task)`, and with a third argument made of the params when that
        is annotated with a dataclass, pydantic model or msgspec struct. Of a class a new instance is
        made for every task, and its `process(tx, task)` is called.

        Options: max_attempts, timeout (seconds, or text such as "5m"), backoff (a Backoff, or text such
        as "1s:64s"), retry_on, discard_on (exception classes). The name defaults to the handler's.
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
        place = place_of(handler)
        try:
            name = check_type(name_of(handler) if name is None else name)
            if name in self._handlers:
                raise AppError(f"two handlers are called {name}, the first at {self[name].place}")
            run = run_of_class(handler) if isinstance(handler, type) else run_of_function(handler)
            self._handlers[name] = Handler(name, run, place, **judged(options))
        except (AppError, InvalidTask) as error:
            raise AppError(f"{place}: {error}") from None
        mark(handler, name)

    def on_worker_start(self, hook: _F) -> _F:
        """Call the decorated function when a worker has started, before its first task."""
        return self._hook("on_worker_start", hook)

    def on_worker_stop(self, hook: _F) -> _F:
        """Call the decorated function when a worker stops."""
        return self._hook("on_worker_stop", hook)

    def on_error(self, hook: _F) -> _F:
        """Call the decorated function with (task, error) when a handler has failed."""
        return self._hook("on_error", hook)

    def around(self, hook: _F) -> _F:
        """Run every handler inside the context manager that the decorated function returns for a task.

        A generator function will do: contextlib.contextmanager is added where it is missing.
        """
        return self._hook("around", hook)

    def _hook(self, kind: str, hook: _F) -> _F:
        names = ARGUMENTS[kind]
        if is_async(hook):
            raise AppError(f"{place_of(hook)}: {kind}: {name_of(hook)} is async")
        if not takes(hook, len(names)):
            raise AppError(
                f"{place_of(hook)}: {kind}: {name_of(hook)} must take ({', '.join(names)})"
            )
        getattr(self.hooks, kind).append(as_context_manager(hook) if kind == "around" else hook)
        return hook

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
