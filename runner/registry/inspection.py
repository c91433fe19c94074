"""What is registered as a handler: its name and place, how it is called, and what is wrong with it."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from ..errors import AppError
from ..task import Task
from .models import MARK, SEVERAL, build, field_names, is_model, own_annotations

Run = Callable[[Any, Task], Any]


def name_of(handler: Any) -> str:
    """What a handler is called: by its class attribute `name` that is no field, else by its own name."""
    if isinstance(handler, type):
        given = vars(handler).get("name")
        if isinstance(given, str) and not (is_model(handler) and "name" in field_names(handler)):
            return given
    return str(getattr(handler, "__name__", "") or type(handler).__name__)


def mark(handler: Any, name: str) -> None:
    """Let `enqueue` find the type of a registered class or function."""
    try:
        before = vars(handler).get(MARK, name)
        setattr(handler, MARK, name if before == name else SEVERAL)
    except (AttributeError, TypeError):
        pass  # built in, or a method: it can be enqueued by its name only


def run_of_function(handler: Any) -> Run:
    """How a function is called for a task."""
    name = name_of(handler)
    if not callable(handler):
        raise AppError(f"{name} cannot be called")
    _check_plain(f"handler {name}", handler)
    model = _model_of_third(handler)
    if model is not None:
        return lambda tx, task: handler(tx, task, build(model, task.params))
    if not takes(handler, 2):
        raise AppError(f"handler {name}{_signature(handler)} must take exactly (tx, task)")
    run: Run = handler
    return run


def run_of_class(cls: Any) -> Run:
    """How a class is used for a task: a new instance every time."""
    process = getattr(cls, "process", None)
    if not callable(process):
        raise AppError(f"class {cls.__name__} has no process(self, tx, task)")
    _check_plain(f"{cls.__name__}.process", process)
    bound = inspect.isfunction(inspect.getattr_static(cls, "process"))
    if not takes(process, 2 + bound):
        raise AppError(f"{cls.__name__}.process must take exactly (self, tx, task)")
    if not is_model(cls) and (cls.__init__ is not object.__init__ or own_annotations(cls)):
        raise AppError(
            f"class {cls.__name__} is no dataclass, pydantic model or msgspec struct:"
            " put @dataclass between @task and the class"
        )
    # Inherited from a base that is one, its own fields would be ignored.
    inherits = dataclasses.is_dataclass(cls) and "__dataclass_params__" not in vars(cls)
    if inherits and own_annotations(cls):
        raise AppError(f"class {cls.__name__} has fields of its own and no @dataclass")
    signature = _signature(cls) if dataclasses.is_dataclass(cls) else None
    for name in signature.parameters if signature else ():
        if name not in field_names(cls):
            raise AppError(f"class {cls.__name__} takes {name}, which is no field")
    return lambda tx, task: build(cls, task.params).process(tx, task)


def _check_plain(what: str, handler: Any) -> None:
    if is_async(handler):
        raise AppError(f"{what} is async; handlers are plain functions")
    if _is(inspect.isgeneratorfunction, handler):
        raise AppError(f"{what} is a generator; handlers are plain functions")


def is_async(handler: Any) -> bool:
    """Whether calling it gives a coroutine or an asynchronous generator instead of doing anything."""
    return _is(inspect.iscoroutinefunction, handler) or _is(inspect.isasyncgenfunction, handler)


def _is(kind: Callable[[Any], bool], handler: Any) -> bool:
    """Whether a function, or what an object of a class is called through, is of a kind."""
    return kind(handler) or kind(type(handler).__call__)


def _model_of_third(handler: Any) -> type | None:
    """The model that the third argument is annotated with."""
    signature = _signature(handler)
    if signature is None or len(signature.parameters) < 3 or not takes(handler, 3):
        return None
    third = list(signature.parameters.values())[2]
    annotation = third.annotation
    if isinstance(annotation, str):
        try:
            annotation = typing.get_type_hints(handler).get(third.name)
        except (NameError, AttributeError, TypeError):
            return None
    return annotation if is_model(annotation) else None


def takes(handler: Any, count: int) -> bool:
    """Whether it can be called with so many positional arguments."""
    signature = _signature(handler)
    try:
        if signature is not None:
            signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _signature(handler: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(handler)
    except (TypeError, ValueError):
        return None  # built in: nothing to see


def place_of(handler: Any) -> str:
    """`file:line` of its source, for messages; the module where there is no source."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    try:
        plain = inspect.unwrap(handler)
        if not (isinstance(plain, type) or inspect.isroutine(plain)):
            plain = type(plain)
        return f"{inspect.getsourcefile(plain)}:{inspect.getsourcelines(plain)[1]}"
    except (TypeError, OSError):
        return getattr(handler, "__module__", None) or "?"
