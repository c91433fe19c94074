"""Cases about data that is odd: NUL bytes in errors, params of any size."""

import random

import pytest

import runner
from tests.cases.aftermath import Scene
from tests.servers import Connection, wait_until


@pytest.mark.case("P-18")
@pytest.mark.process
@pytest.mark.db
def test_p18_nul_in_the_text_of_an_error(scene: Scene) -> None:
    """Saved with the NUL written out, and so is a log line; a type that holds one is refused before any
    SQL. (A class cannot be named so: Python itself refuses that.)"""
    work = scene.work
    (task,) = work.add("raises", how="nul")
    with scene.fleet("--backoff", "600s", procs=1) as fleet:
        wait_until(lambda: work.states() == {"scheduled": 1})
        wait_until(lambda: "about to raise" in fleet.log())
        assert "\0" not in fleet.log()
    row = work.row(task)
    assert row is not None
    assert (row["attempt"], row["cause"]) == (1, "ValueError")
    assert row["last_error"] == "ValueError: bad \\x00 byte"
    with pytest.raises(runner.InvalidTask, match="does not print"):
        runner.enqueue(work.conn, "with\0nul")


@pytest.mark.case("P-19")
@pytest.mark.db
@pytest.mark.parametrize("size", [1_000, 10_000, 250_000])
@pytest.mark.parametrize("kind", ["random", "even"])
def test_p19_uniqueness_of_big_params(db: Connection, size: int, kind: str) -> None:
    """The first of a pair is added, the second is not, whatever size and compressibility. A megabyte is
    above the documented limit (256 KiB), and refused as that."""
    text = random.Random(7).randbytes(size // 2).hex() if kind == "random" else "a" * size
    assert runner.enqueue(db, "hello", {"text": text}, unique=True) is not None
    assert runner.enqueue(db, "hello", {"text": text}, unique=True) is None
    assert runner.enqueue_many(db, [{"text": text}], type="hello", unique=True) == 0
    with pytest.raises(runner.InvalidTask, match="larger than"):
        runner.enqueue(db, "hello", {"text": text[0] * 1_000_000}, unique=True)


@pytest.mark.case("P-19")
@pytest.mark.db
def test_p19_uniqueness_of_a_megabyte_in_plain_sql(db: Connection) -> None:
    """Plain SQL has no limit of ours; the index holds a hash, so no size of params fits badly."""
    for text in (random.Random(7).randbytes(500_000).hex(), "a" * 1_000_000):
        params = f'{{"text": "{text}"}}'
        add = "select runner.enqueue('hello', %s, unique_params => true)"
        assert db.execute(add, [params]).fetchone() != (None,)
        assert db.execute(add, [params]).fetchone() == (None,)
