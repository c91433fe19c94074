"""Classes whose fields are a task's params: dataclasses, pydantic models, msgspec structs.

pydantic and msgspec are looked for among the modules that are imported already: whoever hands us a model
has imported its library, and nobody else needs it.
"""

import dataclasses
import inspect
import json
import sys
from typing import Any

from ..errors import InvalidParams, InvalidTask
from ..text import class_name, safe

MARK = "__runner_type__"  # on a registered class or function: its task type
SEVERAL = ()  # in its place: registered under more than one name


def type_of(thing: Any) -> str:
    """The task type of a registered class or function, or of an instance of such a class."""
    holder = thing if isinstance(thing, type) or inspect.isroutine(thing) else type(thing)
    # Not inherited: an instance of a subclass is another thing, with other fields.
    found = vars(holder).get(MARK) if hasattr(holder, "__dict__") else None
    if isinstance(found, str):
        return found
    name = getattr(holder, "__qualname__", class_name(holder))
    if found is not None:
        raise InvalidTask(f"type: {name} is registered under more than one name: say which")
    raise InvalidTask(f"type: {name} is neither text nor registered as a handler")


def own_annotations(cls: type) -> list[str]:
    """The names that a class itself, not a base of it, annotates as fields."""
    try:
        found = inspect.get_annotations(cls)
    except NameError:  # of something that is defined later
        return []
    return [name for name, kind in found.items() if "ClassVar" not in str(kind)]


def is_model(cls: Any) -> bool:
    """Whether params can be made into an instance of this class, and back."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or _is_pydantic(cls) or _is_msgspec(cls)
    )


def field_names(cls: type) -> list[str]:
    """The names of a model's fields."""
    if _is_pydantic(cls):
        return list(cls.model_fields)  # type: ignore[attr-defined]
    if _is_msgspec(cls):
        return list(cls.__struct_fields__)  # type: ignore[attr-defined]
    return [field.name for field in dataclasses.fields(cls) if field.init]


def params_of(instance: Any) -> Any:
    """The params of an instance, as they are sent."""
    cls = type(instance)
    if _is_pydantic(cls):
        return instance.model_dump(mode="json", by_alias=True)
    if _is_msgspec(cls):
        return sys.modules["msgspec"].to_builtins(instance)
    if dataclasses.is_dataclass(cls):
        return {name: getattr(instance, name) for name in field_names(cls)}
    return {}


def build(cls: type, params: Any) -> Any:
    """A new instance from a task's params; InvalidParams names what is missing, unknown or wrong."""
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise InvalidParams(f"{cls.__name__}: params are no object but {class_name(params)}")
    if _is_pydantic(cls):
        return _build_pydantic(cls, params)
    if _is_msgspec(cls):
        msgspec = sys.modules["msgspec"]
        try:
            return msgspec.convert(params, cls)
        except msgspec.ValidationError as error:
            raise InvalidParams(f"{cls.__name__}: {error}") from None
    _check_names(cls, params)
    return cls(**params)


def _build_pydantic(cls: Any, params: dict[str, Any]) -> Any:
    try:
        # As JSON, not as Python objects: a strict model takes times and the like only so.
        return cls.model_validate_json(json.dumps(params))
    except sys.modules["pydantic"].ValidationError as error:
        wrong = (
            f"{'.'.join(map(str, each['loc'])) or 'params'}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise InvalidParams(f"{cls.__name__}: {'; '.join(wrong)}") from None


def _check_names(cls: type, params: dict[str, Any]) -> None:
    known = [field for field in dataclasses.fields(cls) if field.init] if is_model(cls) else []
    missing = [
        field.name
        for field in known
        if field.name not in params
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    unknown = [name for name in params if name not in {field.name for field in known}]
    faults = [f"missing {_listed(missing)}"] if missing else []
    faults += [f"unknown {_listed(unknown)}"] if unknown else []
    if faults:
        raise InvalidParams(f"{cls.__name__}: {'; '.join(faults)}")


def _listed(names: list[str]) -> str:
    shown = ", ".join(safe(name, 60) for name in names[:10])
    return f"{'field' if len(names) == 1 else 'fields'} {shown}{', …' if len(names) > 10 else ''}"


def _is_pydantic(cls: type) -> bool:
    return "pydantic" in sys.modules and issubclass(cls, sys.modules["pydantic"].BaseModel)


def _is_msgspec(cls: type) -> bool:
    return "msgspec" in sys.modules and issubclass(cls, sys.modules["msgspec"].Struct)
