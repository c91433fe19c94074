"""What README says to type, typed: its lines, on its own tasks.py."""

import re
import signal
from pathlib import Path

import psycopg
import pytest

from tests.docs import block, typed
from tests.fleets import Work, work
from tests.servers import wait_until
from tests.terminal import Terminal, cron_commands

pytestmark = [pytest.mark.process, pytest.mark.db]


def app(directory: Path, *containing: str) -> None:
    """tasks.py as README writes it, and further blocks behind it."""
    parts = [block("README.md", text).text for text in ("# tasks.py", *containing)]
    (directory / "tasks.py").write_text("\n\n".join(parts), "utf-8")


def thumbnails(url: str, create: bool = False) -> list[str]:
    with psycopg.connect(url, autocommit=True) as conn:
        if create:
            conn.execute("create table thumbnail (path text)")
        return [row[0] for row in conn.execute("select path from thumbnail order by 1")]


def test_the_first_commands_of_readme(fresh: str, tmp_path: Path) -> None:
    app(tmp_path)
    thumbnails(fresh, create=True)
    terminal = Terminal(tmp_path, fresh)
    said = {}
    for line in typed(block("README.md", "runner init")):
        if line.startswith("runner start"):
            with terminal.begun(line) as fleet:
                wait_until(lambda: thumbnails(fresh), 30, "the task is done")
                fleet.send_signal(signal.SIGTERM)
                assert fleet.wait(30) == 0
        else:
            said[line] = terminal.type(line)
    assert thumbnails(fresh) == ["a.jpg"]
    assert {line.split()[1] for line in said} == {
        *("DATABASE_URL=postgresql://…", "init", "enqueue", "drain", "status")
    }
    assert said["runner drain"].stderr == ""


def test_the_walk_of_readme(fresh: str, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the slow task, then another start; the seconds are fewer here."""
    app(tmp_path, "def doomed")
    thumbnails(fresh, create=True)
    terminal = Terminal(tmp_path, fresh)
    lines = typed(block("README.md", "runner enqueue doomed"))
    enqueue, interrupted, listed, again, left, todo, requeue = lines[:2], *lines[2:]
    for line in enqueue:
        terminal.type(re.sub(r'"seconds": \d+', '"seconds": 3', line))
    with work(fresh, tmp_path) as queue:
        with terminal.begun(interrupted) as fleet:
            wait_until(lambda: running(queue, "slow"), 30, "the slow one has begun")
            fleet.send_signal(signal.SIGINT)
            assert fleet.wait(30) == 0
        assert "slow" in terminal.type(listed).stdout
        assert thumbnails(fresh) == []
        with terminal.begun(again):
            wait_until(queue.only_dead, 60, "one is done, one is dead")
    assert "slow" not in terminal.type(left).stdout
    assert "no luck" in terminal.type(todo).stdout
    terminal.type(requeue)
    with psycopg.connect(fresh) as conn:
        query = "select task_type, state, attempt from runner.task"
        assert conn.execute(query).fetchall() == [("doomed", "ready", 0)]
    assert thumbnails(fresh) == ["slow"]


def running(queue: Work, task_type: str) -> bool:
    query = "select from runner.task where state = 'running' and task_type = %s"
    return queue.conn.execute(query, [task_type]).fetchone() is not None


def test_the_cron_line_of_readme(fresh: str, tmp_path: Path) -> None:
    """As cron does it: five fields, then a line for sh; silent when all went well."""
    app(tmp_path)
    thumbnails(fresh, create=True)
    (command,) = cron_commands(block("README.md", "* * * * *").text)
    terminal = Terminal(tmp_path, fresh)
    terminal.type("""runner enqueue resize_photo '{"path": "b.jpg"}'""")
    assert terminal.cron(f"cd / && {command.replace('/srv/app', str(tmp_path))}") == ""
    assert thumbnails(fresh) == ["b.jpg"]


def test_the_crontab_of_the_page_on_moving(fresh: str, tmp_path: Path) -> None:
    parts = [block("docs/migrating.md", text).text for text in ("Registry()", "def archive")]
    (tmp_path / "tasks.py").write_text("\n\n".join(parts), "utf-8")
    (tmp_path / "data").mkdir()
    with psycopg.connect(fresh, autocommit=True) as conn:
        conn.execute("create table archive (path text primary key, bytes bigint)")
    crontab = block("docs/migrating.md", "15 3 * * *").text.replace("/srv/jobs", str(tmp_path))
    for command in cron_commands(crontab):
        assert Terminal(tmp_path, fresh).cron(command) == ""
    assert (tmp_path / "data.tgz").exists()
