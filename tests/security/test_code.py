"""What the code may not contain: data that becomes code, SQL made of values, open dependencies."""

import ast
import configparser
import re
from collections.abc import Iterator

import pytest

from tests.docs import ROOT
from tests.unit.test_layers import imports, modules

MODULES = modules()

# Modules that make objects or code out of data, and functions that do.
UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "marshal",
    "shelve",
    "yaml",
    "code",
    "codeop",
    "runpy",
}
UNSAFE_MODULES |= {"multiprocessing", "xmlrpc", "jsonpickle", "cloudpickle", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
UNSAFE_METHODS = {"system", "popen", "mktemp", "literal_eval", "create_function"}
# An import by name: the app that the command line names, and our own verbs. Never anything of a row.
IMPORTERS = {"app", "cli.root"}


def faults(name: str, tree: ast.Module) -> list[str]:
    """What a module does that it may not, in words."""
    found = [
        f"{name} imports {target}"
        for target in imports(name, tree, package=False)
        if target.split(".")[0] in UNSAFE_MODULES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += [f"{name}:{node.lineno} {what}" for what in _of_call(name, node)]
    return found


def _of_call(name: str, node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
        yield f"calls {node.func.id}"
    if any(word.arg == "shell" for word in node.keywords):
        yield "runs a shell"
    if not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr in UNSAFE_METHODS and not _is_re(node.func.value):
        yield f"calls {node.func.attr}"
    named = node.args and isinstance(node.args[0], ast.Constant)
    if node.func.attr == "import_module" and not named and name not in IMPORTERS:
        yield "imports by name"
    if node.func.attr in ("execute", "executemany", "copy", "send") and node.args:
        yield from _of_statement(node.args[0])


def _is_re(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "re"


def _of_statement(text: ast.expr) -> Iterator[str]:
    """Values belong into parameters, and names into psycopg.sql."""
    made = isinstance(text, ast.JoinedStr) or (
        isinstance(text, ast.BinOp) and isinstance(text.left, ast.Constant | ast.JoinedStr)
    )
    if isinstance(text, ast.BinOp) and isinstance(text.left, ast.Constant):
        made = text.left.value not in CONSTANT_STARTS
    if made:
        yield "puts a statement together"


# The connection's own, with a constant behind them.
CONSTANT_STARTS = {
    b"savepoint ",
    b"rollback to savepoint ",
    b"release savepoint %b; savepoint %b",
}


@pytest.mark.parametrize("name", MODULES)
def test_no_data_becomes_code(name: str) -> None:
    assert faults(name, MODULES[name]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from yaml import load",
        "def f(row):\n    import marshal",
        "eval(row)",
        "exec(text)",
        "__import__(row.type)",
        "import importlib\nimportlib.import_module(row.type)",
        "subprocess.run(line, shell=True)",
        "os.system(line)",
        "conn.execute(f'select {value}')",
        "conn.execute('select ' + value)",
        "conn.execute('select %s' % value)",
    ],
)
def test_the_check_finds_what_it_is_for(source: str) -> None:
    assert faults("store.fake", ast.parse(source)) != []


def test_the_check_lets_through_what_is_meant() -> None:
    for source in ("re.compile('x')", "conn.execute(query('x'), {'a': 1})", "json.loads(x)"):
        assert faults("store.fake", ast.parse(source)) == []


# -- dependencies ---------------------------------------------------------------------------------


def requirements() -> dict[str, str]:
    """Requirement -> where it stands; our own extras left out."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    blocks = {"install_requires": setup["options"]["install_requires"]}
    blocks |= dict(setup["options.extras_require"])
    lines = {
        line.split(";")[0].strip(): where
        for where, block in blocks.items()
        for line in block.splitlines()
    }
    return {
        line: where
        for line, where in lines.items()
        if line and not line.startswith(("#", "pgbatch-runner"))
    }


@pytest.mark.parametrize("line", requirements())
def test_every_dependency_has_both_bounds(line: str) -> None:
    assert re.fullmatch(r"[\w.-]+(\[[\w,]+\])?>=[\d.]+,<[\d.]+", line), line


def test_only_four_are_required() -> None:
    hard = {line for line, where in requirements().items() if where == "install_requires"}
    names = {re.split(r"[\[>]", line)[0] for line in hard}
    assert names == {"psycopg", "psycopg-pool", "click", "rich"}
