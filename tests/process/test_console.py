"""The live view, driven through a pseudo-terminal as a person does: what it shows, and every key."""

import re

import pytest

from runner.text import storable
from tests.consoles import dies, fleet
from tests.data import NAUGHTY
from tests.fleets import Work, wait_registered
from tests.servers import wait_until

pytestmark = pytest.mark.process
FULL = pytest.mark.full


def test_it_shows_what_is_so(queue: Work) -> None:
    (hanging,) = queue.add("sleepy", seconds=300)
    queue.add("nobody_knows_it", 3)
    with fleet(queue, procs=3) as one:
        shown = one.wait_for(
            "SLOT", "sleepy", "nobody_knows_it has no handler: 3 waiting", "q stop"
        )
        assert f" {hanging} " in shown
        task = dies(queue)
        workers = wait_registered(queue, 3)
        pids = map(str, workers.values())
        shown = one.wait_for("dead: the last of 1", "ValueError", *pids)
        assert str(task) in shown
        for slot, pid in workers.items():
            assert any(line.split()[:2] == [str(slot), str(pid)] for line in shown.split("\n")), (
                shown
            )
        queue.add("prints")
        shown = one.wait_for("hello from", "and to stderr")
        assert "worker" in shown.split("hello from")[0].split("\n")[-1]
        one.type("qy")
        assert one.end() == 0
        assert one.is_as_before()


def test_keys_that_look(queue: Work) -> None:
    queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for("sleepy", "1 overview")
        task = dies(queue)
        one.wait_for("dead: the last of 1")
        for name in ("2 workers", "3 queues and types", "4 dead", "5 log"):
            one.type(name[0])
            one.wait_for(name)
        one.type("\t")
        one.wait_for("1 overview")
        one.type("?")
        one.wait_for("Keys", "discard them for good", "this page")
        one.type("\x1b")
        one.wait_for("Keys", gone=True)
        one.type("s")
        one.wait_for("saved as runner-")
        (picture,) = queue.directory.glob("runner-*.svg")
        assert "sleepy" in picture.read_text("utf-8")
        one.type("4\x1b[B\r")
        one.wait_for(f"task {task}", "why", "ValueError: boom", "params")
        one.type("x")
        one.wait_for("params", gone=True)
        one.type("+")
        one.wait_for("every 2s", "a look every 2 s")
        one.type("--")
        one.wait_for("every 0.5s")
        one.type("5 ")
        one.wait_for("5 log", "PAUSED")
        queue.add("nobody_knows_it")
        later = dies(queue)
        one.pump(1.5)
        assert f"task {later}" not in one.text()  # nor in the log, which goes on behind the view
        assert "nobody_knows_it" not in one.text()
        one.type(" ")
        one.wait_for(f"task {later} (boom) is dead")
        one.type("1")
        one.wait_for("nobody_knows_it has no handler")
        assert "PAUSED" not in one.text()


def test_keys_that_change(queue: Work) -> None:
    with fleet(queue) as one:
        one.wait_for("q stop")
        first, second = dies(queue), dies(queue)
        one.type("4")
        one.wait_for("dead: the last of 2")
        one.type("jd")
        one.wait_for(f"discard task {second} (boom) for good?")
        one.type("n")
        one.wait_for("nothing was changed")
        assert queue.row(second) is not None
        one.type("dy")
        one.wait_for("discarded 1 task")
        assert queue.row(second) is None
        one.wait_for("dead: the last of 1")
        queue.conn.execute(
            "update runner.task set params = '{\"mended\": true}', task_type = 'ordinary'"
        )
        one.type("r")
        one.wait_for("choose a dead task")
        one.type("jry")
        one.wait_for("requeued 1 task")
        wait_until(lambda: queue.row(first) is None, why="it is run again")
        one.type("3j")
        queue.conn.execute("insert into runner.task (task_type, queue) values ('nobody', 'spare')")
        one.wait_for("spare")
        one.type("\x1b[Hp")
        one.wait_for("pause queue spare?")
        one.type("y")
        one.wait_for("paused spare", "queue spare is paused: 1 waiting")
        one.type("p")
        one.wait_for("resume queue spare?")
        one.type("y")
        one.wait_for("resumed spare")
        wait_until(lambda: queue.conn.execute("select from runner.pause").fetchone() is None)


def test_kill_a_workers_task(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue) as one:
        one.wait_for(f"{task}  sleepy")
        before = set(wait_registered(queue, 2).values())
        one.type("2jK")
        shown = one.text()
        if "kill task" not in one.wait_for("kill"):  # the other worker has it
            one.type("jK")
        one.wait_for(f"kill task {task} (sleepy)")
        assert "outside of the database stands" in one.text().replace("\n", ""), shown
        one.type("y")
        one.wait_for("cancelled 1 task")
        assert queue.row(task) is None
        wait_until(lambda: len(set(queue.workers().values()) - before) == 1, 20, "replaced")
        assert queue.conn.execute("select how from runner.removed").fetchall() == [("cancelled",)]


def test_quitting_asks_while_tasks_run(queue: Work) -> None:
    (task,) = queue.add("sleepy", seconds=300)
    with fleet(queue, "--grace", "30s") as one:
        one.wait_for(f"{task}  sleepy")
        one.type("q")
        one.wait_for("stop? 1 task in hand, up to 30 s to end")
        one.type("n")
        one.wait_for("nothing was changed")
        one.type("qy")
        one.wait_for("stopping (SIGTERM): 1 task in hand")
        one.pump(0.6)  # another q in the same half second is the same stop
        one.type("q")
        one.wait_for("stop at once, and give back 1 task?")
        one.type("y")
        assert one.end() == 143
        assert one.is_as_before()
        row = queue.row(task)
        assert row is not None
        assert (row["state"], row["attempt"]) == ("ready", 0)


@pytest.mark.parametrize("columns", [45, *(pytest.param(one, marks=FULL) for one in (20, 60, 150))])
def test_another_size_counts_at_once(queue: Work, columns: int) -> None:
    with fleet(queue) as one:
        one.wait_for("SLOT", "q stop")
        one.resize(columns, 20)
        one.type("?")
        one.wait_for("Keys")
        one.type("x")
        one.wait_for("SLOT", "q stop")
        lines = one.text().split("\n")
        assert len(lines) == 20
        assert lines[0].startswith(" runner")
        assert "q stop" in lines[-1]


OURS = re.compile(rb"\x1b\[[0-9;]*m|\x1b\[\?(?:1049|25)[hl]|\x1b\[H|\r\n")


def test_nothing_hostile_reaches_the_terminal(queue: Work) -> None:
    """Every naughty string as a type that waits, as params, as what a task prints, logs and dies of."""
    texts = [storable(text) for text in NAUGHTY] + ["\x1b]0;title\x07", "\x1b[2J", "[/] [bold]x"]
    with fleet(queue, columns="160", lines="50") as one:
        one.wait_for("SLOT", "q stop")
        for text in texts:
            if 0 < len(text.encode()) < 256:
                queue.add(text)
            queue.add("says", text=text)
        of_says = "select count(*) from runner.task where task_type = 'says' and state <> 'dead'"
        wait_until(lambda: (one.pump(), queue.conn.execute(of_says).fetchone() == (0,))[1], 60)
        one.wait_for("dead: the last of")
        for keys in ("2", "3", "jj\r", "x", "4", "jjj\r", "jj", "x", "jr", "n", "5", "kkk", "1"):
            one.type(keys)
            one.pump(0.3)
        one.type("qy")
        assert one.end() == 0
        left = OURS.sub(b"", one.sent).decode()
        strange = {char for char in left if not char.isprintable() and char not in "\u200c\u200d"}
        assert {char for char in strange if not char.isspace() or char < "\xa0"} == set()
        assert one.screen.title == ""
