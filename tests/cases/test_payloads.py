"""Cases about params, times and what is stored: P-43, P-57, P-58, P-62, P-63, P-64."""

import ast
import os
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg.pq import TransactionStatus

import runner
from tests import fleets
from tests.apps import habits
from tests.cases.aftermath import Scene
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.db
COUNT = "select count(*) from runner.task"
HABITS = "tests.apps.habits"


@pytest.mark.case("P-58")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_p58_no_nan_and_no_infinity(db: Connection, number: float) -> None:
    """A ValueError that names the place, and nothing sent."""
    with db.transaction():
        with pytest.raises(ValueError, match=r"params\.a\[1\]: NaN and Infinity"):
            runner.enqueue(db, "hello", {"a": [1.0, number]})
        assert db.execute(COUNT).fetchone() == (0,)


@pytest.mark.case("P-58")
def test_p58_a_float_of_another_library(db_url: str) -> None:
    """numpy's numbers are floats of a class of their own; no statement was even begun for them."""

    class Float64(float):
        def __repr__(self) -> str:
            return f"np.float64({float(self)})"

    numbers: list[Any] = [Float64("nan"), Float64("-inf")]
    try:
        import numpy
    except ModuleNotFoundError:
        pass
    else:
        numbers += [numpy.float64("nan"), numpy.float32("inf")]
    with psycopg.connect(db_url) as conn:
        for number in numbers:
            with pytest.raises(ValueError, match=r"params\[0\]"):
                runner.enqueue(conn, "hello", [number])
            assert conn.info.transaction_status is TransactionStatus.IDLE
        assert runner.enqueue(conn, "hello", [Float64(1.5)]) is not None


@pytest.mark.case("P-57")
@pytest.mark.parametrize("params", [{"a": ["x\0"]}, {"a": [{"x\0": 1}]}], ids=["value", "key"])
def test_p57_nul_in_the_callers_transaction(db_url: str, params: Any) -> None:
    """A ValueError that names the place; the caller's own row commits, before and after it."""
    with psycopg.connect(db_url) as conn:
        conn.execute("create table own (n int)")
        conn.execute("insert into own values (1)")
        with pytest.raises(ValueError, match=r"params\.a\[0\].*U\+0000"):
            runner.enqueue(conn, "hello", params)
        with pytest.raises(ValueError, match=r"item 2: params\.a\[0\].*U\+0000"):
            runner.enqueue_many(conn, [{"good": 1}, params], type="hello")
        assert conn.info.transaction_status is TransactionStatus.INTRANS
        conn.execute("insert into own values (2)")
    with psycopg.connect(db_url) as other:
        assert other.execute("select n from own order by n").fetchall() == [(1,), (2,)]
        assert other.execute(COUNT).fetchone() == (0,)


@pytest.mark.case("P-43")
@pytest.mark.parametrize("value", ["\ud800", os.fsdecode(b"\xe9")])
def test_p43_no_lone_surrogates(db: Connection, value: str) -> None:
    """Refused by name as value, key, type and queue; the transaction stays usable."""
    with db.transaction():
        for arguments, options in (
            (("hello", {"f": value}), {}),
            (("hello", {value: 1}), {}),
            (("hello",), {"key": value}),
            ((value,), {}),
            (("hello",), {"queue": value}),
        ):
            with pytest.raises(ValueError, match=r"lone surrogate|does not print"):
                runner.enqueue(db, *arguments, **options)
        assert runner.enqueue(db, "hello", {"f": "\U0001f600"}) is not None


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.case("P-64")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/Caracas"])
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2031, 3, 30, 2, 30, tzinfo=BERLIN),
        datetime(2031, 10, 26, 2, 30, tzinfo=BERLIN),
        datetime(2031, 10, 26, 2, 30, fold=1, tzinfo=BERLIN),
        datetime(2031, 7, 1, 12, 0, 0, 123456, tzinfo=UTC),
    ],
    ids=str,
)
def test_p64_times_are_instants(db: Connection, moment: datetime, zone: str) -> None:
    """Whatever the zone of the server's session, and on the days of the change."""
    db.execute("set timezone = " + zone if zone == "UTC" else f"set timezone = '{zone}'")
    runner.enqueue(db, "one", run_at=moment)
    runner.enqueue_many(db, [{"type": "many", "run_at": moment}])
    runner.enqueue_many(db, [{"type": "text", "run_at": moment.isoformat()}])
    found = db.execute("select distinct extract(epoch from run_at)::float8, state from runner.task")
    assert found.fetchall() == [(moment.timestamp(), "scheduled")]


@pytest.mark.case("P-64")
def test_p64_naive_times_are_refused(db: Connection) -> None:
    """No time zone, no task."""

    class Nowhere(tzinfo):
        def utcoffset(self, when: datetime | None) -> timedelta | None:
            return None

    for moment in (datetime(2031, 1, 1), datetime(2031, 1, 1, tzinfo=Nowhere())):
        with pytest.raises(runner.InvalidTask, match="run_at: without a time zone"):
            runner.enqueue(db, "hello", run_at=moment)
    with pytest.raises(runner.InvalidTask, match="item 1: run_at: without a time zone"):
        runner.enqueue_many(db, [{"type": "hello", "run_at": "2031-01-01T00:00:00"}])


SAME = [({"a": 1, "b": [2]}, {"b": [2], "a": 1}), (-0.0, 0.0), ((1, 2), [1, 2])]
DIFFERENT = [(1, 1.0), (1, True), (1.0, True), ("\u00e9", "e\u0301"), ({"a": None}, {}), (0, None)]


@pytest.mark.case("P-63")
@pytest.mark.parametrize("pair", SAME + DIFFERENT, ids=ascii)
@pytest.mark.parametrize("way", ["one", "many", "sql"])
def test_p63_what_counts_as_the_same_params(
    db: Connection, pair: tuple[Any, Any], way: str
) -> None:
    """The same table from Python, in bulk and from plain SQL."""

    def add(params: Any) -> bool:
        if way == "one":
            return runner.enqueue(db, "hello", params, unique=True) is not None
        if way == "many":
            return runner.enqueue_many(db, [params], type="hello", unique=True) == 1
        text = runner.enqueue_sql("hello", params)[1]["params"]
        row = db.execute("select runner.enqueue('hello', %s, unique_params => true)", [text])
        return row.fetchone() != (None,)

    one, other = pair
    assert add(one)
    assert add(other) == (pair in DIFFERENT)
    assert runner.enqueue(db, "hello", one, unique=True) is None  # whichever way it came in


@pytest.mark.case("P-63")
def test_p63_keys_that_are_not_text_are_refused(db: Connection) -> None:
    """{1: x} and {"1": x} do not become one."""
    with pytest.raises(runner.InvalidTask, match="a key is of type int"):
        runner.enqueue(db, "hello", {1: "x"}, unique=True)


# -- through a fleet --------------------------------------------------------------------------------


@pytest.mark.case("P-64")
@pytest.mark.process
def test_p64_due_at_its_instant_whatever_the_zones(scene: Scene) -> None:
    """The server, the worker and the caller each in a zone of their own: once, and not before."""
    work = scene.work
    work.conn.execute(
        "do $$ begin execute format('alter database %I set timezone = %L',"
        " current_database(), 'Asia/Kathmandu'); end $$"
    )
    work.conn.execute("set timezone = 'Pacific/Chatham'")
    with scene.fleet(app=HABITS, procs=2, TZ="America/St_Johns"):
        fleets.wait_registered(work, 2)
        due = datetime.now(BERLIN) + timedelta(seconds=1)
        due_monotonic = time.monotonic() + (due.timestamp() - time.time())
        ids = [
            runner.enqueue(work.conn, "ordinary", run_at=due),
            runner.enqueue(work.conn, "ordinary", run_at=due.astimezone(UTC)),
            runner.enqueue(work.conn, "ordinary", delay=1.0),
        ]
        assert work.states() == {"scheduled": 3}
        wait_until(work.empty, 20)
    work.exactly_once([each for each in ids if each is not None])
    # The witness writes three decimals.
    assert all(float(fields[5]) > due_monotonic - 0.002 for fields in work.noted("start"))


TAGGED = {
    "__class__": "os.system",
    "py/object": "subprocess.Popen",
    "py/reduce": [{"py/function": "os.system"}, ["touch pwned"]],
    "$type": "System.Diagnostics.Process",
    "!!python/object/apply:os.system": ["touch pwned"],
    "yaml": "!!python/object/apply:os.system [touch pwned]",
    "pickle": "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAZ0b3VjaCB4lIWUUpQu",
    "__reduce__": "cos\nsystem\n(S'touch pwned'\ntR.",
    "template": "{task.__class__.__mro__} {{7*7}} %(x)s ${HOME}",
}


@pytest.mark.case("P-62")
@pytest.mark.process
def test_p62_a_payload_arrives_as_plain_data(scene: Scene) -> None:
    """What looks like an object of some library is a dict of texts to the handler, and runs nothing."""
    work = scene.work
    work.conn.execute(habits.SEEN)
    assert runner.enqueue(work.conn, "keeps", TAGGED) is not None
    with scene.fleet(app=HABITS, procs=1):
        wait_until(work.empty)
    assert work.conn.execute("select what from seen").fetchall() == [(TAGGED,)]
    assert not list(work.directory.rglob("pwned"))


UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "yaml", "jsonpickle", "cloudpickle"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
# What they import is written there or was typed by the operator; never what a row holds.
IMPORTS_BY_NAME = {"app.py", "__init__.py", "cli/root.py", "handling/restore.py", "titles.py"}


def unsafe_in(source: str, name: str) -> list[str]:
    """What in a module could make objects or code out of data."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.split(".")[0] in UNSAFE_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in UNSAFE_MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=called)) if called in UNSAFE_CALLS:
                found.append(called)
            case ast.Attribute(attr="import_module") if name not in IMPORTS_BY_NAME:
                found.append("import_module")
    return found


@pytest.mark.case("P-62")
def test_p62_nothing_in_the_package_makes_code_of_data() -> None:
    """JSON only, both ways, and fixed records between processes."""
    package = Path(runner.__file__).parent
    names = {str(path.relative_to(package)): path for path in package.rglob("*.py")}
    assert len(names) > 100
    found = {name: unsafe_in(path.read_text(), name) for name, path in names.items()}
    assert {name: what for name, what in found.items() if what} == {}
    # The check finds what it is for.
    bad = "import pickle, os.path\nfrom yaml import load\neval('1')\nimportlib.import_module(x)\n"
    assert unsafe_in(bad, "x.py") == ["pickle", "yaml", "eval", "import_module"]
