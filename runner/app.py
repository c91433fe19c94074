"""Finding and loading the module that holds a registry. Workers and `check` run its code; the parent of
a fleet does only where `--preload` asks for it."""

import configparser
import importlib
import os
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from .errors import AppError, ConfigError
from .registry import Registry

_NOWHERE = (
    "no app: give -A MODULE, or set RUNNER_APP,"
    " or [runner] app in ./setup.cfg, or have a tasks.py here"
)

_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_NO_REGISTRY = "it needs two lines: `import runner` and `tasks = runner.Registry()`"


def find(given: str | None, app_dir: str, environment: Mapping[str, str] = os.environ) -> str:
    """The app's name, `module[:object]`, without importing it; ConfigError when there is none."""
    if name := given or environment.get("RUNNER_APP"):
        return name
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read(Path(app_dir) / "setup.cfg", "utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"setup.cfg: {' '.join(str(error).split())}") from None
    if name := settings.get("runner", "app", fallback=None):
        return name
    if (Path(app_dir) / "tasks.py").is_file():
        return "tasks"
    where = os.path.abspath(app_dir)
    raise ConfigError(_NOWHERE, hint=f"looked in {where}; --app-dir DIR looks in another directory")


def load(name: str, app_dir: str) -> Registry:
    """Import the app and return its registry; AppError with file and line when that fails."""
    module_name, _, attribute = name.partition(":")
    if not _MODULE.fullmatch(module_name) or module_name.endswith(".py"):
        raise AppError(f"app {name}: no name of a module", hint=_meant(module_name))
    directory = os.path.abspath(app_dir)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except (AppError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise AppError(
                f"app {module_name} not found in {directory}", hint="see --app and --app-dir"
            ) from None
        raise AppError(_told(module_name, error)) from error
    except BaseException as error:  # sys.exit() at import included
        raise AppError(_told(module_name, error)) from error
    return _registry_in(module, module_name, attribute)


def _meant(path: str) -> str:
    """The name of the module that is in a file."""
    meant = path.removesuffix(".py").removeprefix("./").replace("/", ".")
    return f"did you mean -A {meant}?" if _MODULE.fullmatch(meant) else "write it as -A shop.tasks"


def _registry_in(module: object, module_name: str, attribute: str) -> Registry:
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, Registry):
            raise AppError(f"app {module_name} has no Registry called {attribute}")
        return found
    registries = {
        id(value): value for value in vars(module).values() if isinstance(value, Registry)
    }
    if len(registries) == 1:
        return next(iter(registries.values()))
    if not registries:
        raise AppError(f"app {module_name} has no Registry", hint=_NO_REGISTRY)
    raise AppError(f"app {module_name} has several: say which, as {module_name}:NAME")


def _told(module_name: str, error: BaseException) -> str:
    what = f"{type(error).__name__}: {error}".strip().rstrip(":")
    if isinstance(error, SyntaxError) and error.filename:
        return f"app {module_name}: {error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "importlib" not in frame.filename]
    place = f"{ours[-1].filename}:{ours[-1].lineno}: " if len(ours) > 1 else ""
    if isinstance(error, SystemExit):
        what = f"calls sys.exit({error.code!r}) at import"
    return f"app {module_name}: {place}{what}"
