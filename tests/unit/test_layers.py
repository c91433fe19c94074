"""Layers point one way, and each dependency lives in one place: read off the imports of every module.

Layer 0 is the standard library and pure; 1 knows the app; 2 the database; 3 runs in the children; 4 is
the parent; 5 puts it together; 6 is what people type.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import runner

ROOT = Path(runner.__file__).parent

LAYERS: list[tuple[str, ...]] = [
    (
        *("errors", "clock", "backoff", "task", "config", "text", "payload", "fields", "units"),
        *(
            "wire",
            "judge",
            "observing",
            "logpipe",
            "loglines",
            "sink",
            "faults",
            "statements",
            "_version",
            "seat",
            "places",
            "saying",
            "renewing",
            "tally",
            "cgroup",
            "files",
            "memfile",
        ),
        "operating",
    ),
    (
        "kernel",
        "room",
        "terminal",
        "inherited",
        "permits",
        "typenames",
        "postmortem",
        "titles",
        "registry",
        "app",
        "preloading",
        "embedded",
    ),
    ("store", "enqueueing", "demo_app"),
    ("otel", "handling", "maintaining", "console", "roles", "testing", "testing_plugin"),
    ("supervisor",),
    ("fleet", "draining"),
    ("cli", "__main__"),
]

# Third-party packages, and where they may be imported.
PLACES = {
    "click": ("cli", "__main__"),
    "rich": ("cli.output", "cli.progress", "roles.console", "console"),
    "psycopg": (
        *(
            "store",
            "handling",
            "maintaining",
            "console.gather",
            "roles",
            "fleet",
            "draining",
            "embedded",
            "enqueueing.drivers",
            "testing",
        ),
    ),
    "opentelemetry": ("otel",),
    "psycopg_pool": ("roles", "enqueueing.client"),
    "threading": ("store", "enqueueing", "handling", "embedded", "roles", "preloading"),
}
# The parent: what must not even be loaded by its modules.
PARENT_FORBIDS = {"psycopg", "psycopg_pool", "click", "rich", "threading", "multiprocessing"}
PARENT_FORBIDS |= {"concurrent", "logging", "asyncio", "subprocess"}

SQL = re.compile(
    r"\s*(select|insert\s+into|update\s+\w+\s+set|delete\s+from|with\s+\w+\s+as|begin|commit|rollback"
    r"|set\s+(local|session)|listen|notify|create\s+(table|schema|index)|drop\s+\w+|alter\s+\w+)\b",
    re.IGNORECASE,
)


def modules() -> dict[str, ast.Module]:
    """Every module of the package by its name below `runner`."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def imports(name: str, tree: ast.Module, package: bool) -> Iterator[str]:
    """What a module imports, in full: `runner.wire`, `psycopg.rows`; function bodies included."""
    here = ["runner", *(name.split(".") if name else [])]
    if not package:
        here = here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{start}.{alias.name}"
                yield whole if _exists(whole) else start


def _exists(dotted: str) -> bool:
    path = ROOT.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def layer_of(name: str) -> int | None:
    """The layer of a module; None for `runner` itself, which only names things."""
    for number, members in enumerate(LAYERS):
        if name.split(".")[0] in members:
            return number
    return None


def in_any(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


def faults_of(name: str, imported: list[str]) -> list[str]:
    """What a module's imports do that the layers forbid, in words."""
    found = []
    mine = layer_of(name)
    for target in imported:
        top, _, rest = target.partition(".")
        if top in PLACES and not in_any(name, PLACES[top]):
            found.append(f"{name} imports {top}")
        if in_any(name, ("supervisor",)) and top in PARENT_FORBIDS:
            found.append(f"{name}, in the parent, imports {top}")
        if top != "runner":
            if mine == 0 and top not in sys.stdlib_module_names:
                found.append(f"{name}, in layer 0, imports {top}")
            continue
        other = layer_of(rest)
        if rest and mine is not None:
            if other is not None and other > mine:
                found.append(f"{name} imports {rest}, which is above it")
            siblings = in_any(name, ("roles",)) and in_any(rest, ("roles",))
            if siblings and name != rest:
                found.append(f"the role {name} imports {rest}")
            if in_any(name, ("supervisor",)) and in_any(rest, ("store", "roles", "handling")):
                found.append(f"{name}, in the parent, imports {rest}")
    return found


def imported(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """What each module imports, in full."""
    found = {}
    for name, tree in trees.items():
        package = (ROOT / Path(*name.split(".")) / "__init__.py").is_file() or not name
        found[name] = list(imports(name, tree, package))
    return found


def circle(graph: dict[str, list[str]]) -> list[str]:
    """Modules of ours of which each imports the one before; none where there is no such circle."""
    ours = {
        name: {target.removeprefix("runner.") for target in targets} & graph.keys() - {name}
        for name, targets in graph.items()
    }
    try:
        TopologicalSorter(ours).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_has_a_layer() -> None:
    assert [name for name in modules() if name and layer_of(name) is None] == []


def test_layers_point_one_way() -> None:
    graph = imported(modules())
    assert [fault for name, targets in graph.items() for fault in faults_of(name, targets)] == []


def test_nothing_is_imported_in_a_circle() -> None:
    graph = imported(modules())
    assert circle(graph) == []
    graph["clock"] = ["runner.supervisor.supervisor"]
    assert {"clock", "supervisor.supervisor"} <= set(circle(graph))


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("supervisor.fake", "import psycopg", "supervisor.fake, in the parent, imports psycopg"),
        (
            "supervisor.fake",
            "def f():\n    from psycopg import sql",
            "supervisor.fake imports psycopg",
        ),
        ("supervisor.fake", "import threading", "in the parent, imports threading"),
        ("supervisor.fake", "from ..store import claim", "in the parent, imports store.claim"),
        ("supervisor.fake", "from ..roles.log import Log", "in the parent, imports roles.log"),
        ("roles.fake", "from .worker import Worker", "the role roles.fake imports roles.worker"),
        ("roles.fake", "from ..supervisor.child import Child", "which is above it"),
        ("wire", "import psycopg", "wire, in layer 0, imports psycopg"),
        ("judge", "from .store import ending", "judge imports store.ending, which is above it"),
        ("store.fake", "import click", "store.fake imports click"),
        ("fleet", "import rich.table", "fleet imports rich"),
        (
            "store.fake",
            "from ..roles import worker",
            "store.fake imports roles.worker, which is above",
        ),
    ],
)
def test_the_check_finds_what_it_is_for(name: str, source: str, fault: str) -> None:
    found = faults_of(name, list(imports(name, ast.parse(source), package=False)))
    assert any(fault in one for one in found), found


def test_the_check_lets_through_what_is_meant() -> None:
    for name, source in (
        ("roles.fake", "from ..seat import Ends, Seat\nfrom ..store import ending"),
        ("supervisor.fake", "import os, signal\nfrom ..wire import Kind\nfrom . import reaper"),
        ("cli.fake", "import click\nfrom ..fleet import start"),
    ):
        assert faults_of(name, list(imports(name, ast.parse(source), package=False))) == []


def texts(tree: ast.Module) -> Iterator[str]:
    """String constants that are no documentation; of bytes, and of f-strings, the parts."""
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docs:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


def sql_in(tree: ast.Module) -> list[str]:
    return [text for text in texts(tree) if SQL.match(text) and " " in text.strip()]


def test_sql_is_in_sql_files() -> None:
    found = {
        name: sql_in(tree) for name, tree in modules().items() if not in_any(name, ("embedded",))
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_the_search_for_sql_finds_some() -> None:
    tree = ast.parse('"""select a doc"""\nx = "select 1"\ny = f"delete from {x}"\nz = "select"')
    assert sql_in(tree) == ["select 1", "delete from "]
