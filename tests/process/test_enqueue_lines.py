"""`runner enqueue --from`: every line a task, or none of them and the bad line named."""

import json
from pathlib import Path

import psycopg
import pytest

from tests import commands
from tests.servers import Connection

pytestmark = [pytest.mark.process, pytest.mark.db]


def tasks(db: Connection) -> list[tuple[str, object]]:
    return db.execute("select task_type, params from runner.task order by task_id").fetchall()


def add(url: str, *arguments: str, stdin: str = "") -> commands.Result:
    return commands.run("enqueue", *arguments, url=url, stdin=stdin)


def counted(result: commands.Result) -> tuple[int, int]:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    numbers = json.loads(result.stdout)
    assert set(numbers) == {"added", "skipped"}
    return numbers["added"], numbers["skipped"]


def test_lines_are_params(db: Connection, db_url: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n[2]\nnull\n"last line, no end"')
    result = add(db_url, "hello", "--from", str(file), "--queue", "q")
    assert result.stdout == "added\tskipped\n4\t0\n"
    expected = [{"a": 1}, [2], None, "last line, no end"]
    assert tasks(db) == [("hello", params) for params in expected]


def test_a_byte_order_mark_alone_is_no_empty_file(db: Connection, db_url: str) -> None:
    result = add(db_url, "hello", "--from", "-", stdin="\ufeff")
    assert result.returncode == 2
    assert "line 1: params: not JSON" in result.stderr
    assert tasks(db) == []


def test_plain_lines(db: Connection, db_url: str) -> None:
    paths = 'a b.jpg\n\n"quoted"\nä\tb\\.jpg\r\n'
    arguments = ("hello", "--from", "-", "--lines", "path", "--json")
    assert counted(add(db_url, *arguments, stdin=paths)) == (3, 0)
    expected = ["a b.jpg", '"quoted"', "ä\tb\\.jpg"]
    assert tasks(db) == [("hello", {"path": path}) for path in expected]


def test_plain_lines_without_the_option_are_told_of_it(db: Connection, db_url: str) -> None:
    for text, hint in (("a.jpg", "hint: did you mean --lines FIELD?"), ('{"a"', None)):
        first, *more = add(db_url, "hello", "--from", "-", stdin=text).stderr.splitlines()
        assert first.startswith("runner: error: line 1: params: not JSON")
        assert more == ([] if hint is None else [hint])


def test_envelopes(db: Connection, db_url: str) -> None:
    lines = [
        {"type": "a", "params": {"n": 1}, "key": "k", "priority": 1},
        {"type": "a", "params": {"n": 2}, "key": "k"},
        {"queue": "other", "run_at": "2031-01-01T00:00:00Z", "max_attempts": 2},
        {"params": None, "unique": True, "delay": 0.5},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    arguments = ("hello", "--from", "-", "--envelope", "--json")
    assert counted(add(db_url, *arguments, stdin=text)) == (3, 1)
    assert sorted(name for name, _ in tasks(db)) == ["a", "hello", "hello"]
    assert counted(add(db_url, *arguments, stdin=text))[1] == 3


def test_unique_lines(db: Connection, db_url: str) -> None:
    arguments = ("hello", "--from", "-", "--unique", "--json")
    assert counted(add(db_url, *arguments, stdin='{"a":1,"b":2}\n{"b":2,"a":1}\n{}')) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "line", "message"),
    [
        (["hello"], "{'a': 1}", "params: not JSON: Expecting property name enclosed in double"),
        (["hello"], '{"a": NaN}', "params: NaN is not JSON"),
        (["hello"], '{"a": "\\u0000"}', "params.a: holds U+0000, which PostgreSQL cannot store"),
        (
            ["hello"],
            '{"a": "\\ud800"}',
            "params.a: holds a lone surrogate, which is no Unicode text",
        ),
        (["hello"], "[" + "1," * 140_000 + "1]", "params: larger than 262144 bytes"),
        (
            ["hello", "--lines", "p"],
            "a\0b",
            "params.p: holds U+0000, which PostgreSQL cannot store",
        ),
        (["hello", "--lines", "p"], "a\udce9", "not UTF-8 at byte 2"),
        (["hello", "--lines", "p"], "a" * (1 << 21), "longer than 1048576 bytes"),
        (["--envelope"], '{"params": {}}', "type: missing"),
        (["--envelope"], '{"type": "a", "tries": 3}', "tries: no such field"),
        (["--envelope"], '{"type": "a", "params": {"a": NaN}}', "params: NaN is not JSON"),
        (["--envelope"], '["a"]', "no object with the fields of a task"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_one_bad_line_and_nothing_is_added(
    db: Connection, db_url: str, tmp_path: Path, arguments: list[str], line: str, message: str
) -> None:
    good = '{"type": "a"}' if "--envelope" in arguments else "{}"
    file = tmp_path / "lines"
    file.write_bytes("\n".join([good, "", good, line, good]).encode("utf-8", "surrogateescape"))
    result = add(db_url, *arguments, "--from", str(file))
    assert result.returncode == 2
    assert result.stdout == ""
    first, *more = result.stderr.splitlines()
    assert first.startswith(f"runner: error: line 4: {message}")
    assert [text.partition(":")[0] for text in more] in ([], ["hint"])
    assert tasks(db) == []


def test_a_hundred_thousand_lines(db: Connection, db_url: str) -> None:
    lines = [f'{{"path": "photos/{n}.jpg"}}\n' for n in range(100_000)]
    arguments = ("hello", "--from", "-", "--json")
    bad = [*lines[:70_000], "oops\n", *lines[70_001:]]
    result = add(db_url, *arguments, stdin="".join(bad))
    assert result.returncode == 2
    assert "line 70,001: params: not JSON" in result.stderr
    assert tasks(db) == []
    assert counted(add(db_url, *arguments, stdin="".join(lines))) == (100_000, 0)
    assert db.execute("select count(*) from runner.task").fetchone() == (100_000,)


def test_nothing_is_added_when_the_database_refuses_one(db: Connection, db_url: str) -> None:
    """Bad lines are found before; this is for what only the database can know."""
    db.execute("alter table runner.task add constraint no_seven check (params <> '7')")
    try:
        for more in ([], ["--unique"]):
            result = add(db_url, "hello", "--from", "-", *more, stdin="6\n7\n8\n")
            assert result.returncode != 0
            assert tasks(db) == []
    finally:
        db.execute("alter table runner.task drop constraint no_seven")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hello", "{}", "--from", "-"], "--from and JSON exclude each other"),
        (["hello", "--from", "-", "--key", "k"], "--from and --key exclude each other"),
        (["hello", "--lines", "path"], "--lines needs --from"),
        (["hello", "--envelope"], "--envelope needs --from"),
        (["--from", "-"], "missing argument TYPE"),
        (
            ["--from", "-", "--lines", "a", "--envelope"],
            "--lines and --envelope exclude each other",
        ),
        (
            ["hello", "--from", "/nonexistent/file"],
            "--from: cannot read /nonexistent/file: No such",
        ),
        (["hello", "--from", "/"], "--from: cannot read /: Is a directory"),
        (
            ["hello", "--from", "-", "--in", "1s", "--at", "2031-01-01T00:00:00Z"],
            "exclude each other",
        ),
        (["hello", "--from", "-", "--priority", "12"], "line 1: priority: must be from 0"),
    ],
    ids=str,
)
def test_usage(db_url: str, arguments: list[str], message: str) -> None:
    result = add(db_url, *arguments, stdin="{}\n")
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_nothing_at_all(db_url: str) -> None:
    assert counted(add(db_url, "hello", "--from", "-", "--json")) == (0, 0)


def test_a_progress_bar_on_a_terminal(db: Connection, db_url: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("{}\n" * 20_000)
    arguments = ("enqueue", "hello", "--from", str(tmp_path / "lines"))
    shown, code = commands.run_on_terminal(*arguments, url=db_url, cwd=Path.cwd())
    assert code == 0
    assert "adding 20,000" in shown
    assert "20000" in shown.rpartition("added")[2]
    quiet, code = commands.run_on_terminal("-q", *arguments, url=db_url, cwd=Path.cwd())
    assert code == 0
    assert "adding" not in quiet


def test_a_twin_of_somebody_else_is_waited_for(db: Connection, db_url: str) -> None:
    """Not for long: our lock timeout bounds it, and nothing is added then."""
    with psycopg.connect(db_url) as other:
        other.execute("select runner.enqueue('hello', '{}', unique_params => true)")
        result = add(db_url, "hello", "--from", "-", "--unique", stdin="{}\n")
        other.rollback()
    assert result.returncode == 69
    assert len(result.stderr.splitlines()) <= 2
    assert tasks(db) == []
