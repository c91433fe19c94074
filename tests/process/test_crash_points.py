"""L2: at each point of a claim's life its worker is killed, its parent is killed, or the database ends
every session; whatever happens, each effect is there once, and nobody is charged for another's death.

The three of a point run side by side, each in a database of its own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import fleets, servers
from tests.hurting import hurtable, reconnect
from tests.servers import wait_until

pytestmark = [pytest.mark.process, pytest.mark.db]

OPTIONS = ("--lease", "3s", "--renew", "500ms", "--grace", "2s", "--backoff", "100ms:500ms")
ACTIONS = {"child": "kill", "parent": "kill-parent", "database": "hold"}


@dataclass(frozen=True)
class Point:
    """A place where something may end: what is run so that it is come to."""

    task_type: str = "ordinary"
    count: int = 3
    writes: bool = True
    fails_once: bool = False
    held_up_seconds: float = 0.0  # by one task in the middle of a batch
    in_handler: bool = False  # the death of its worker is charged

    def add(self, work: fleets.Work) -> list[int]:
        ids = work.add(self.task_type, self.count)
        if self.held_up_seconds:
            ids += work.add(self.task_type, 3, seconds=self.held_up_seconds)
            ids += work.add(self.task_type, self.count)
        return ids


POINTS = {
    "before_registered": Point(),
    "before_claim": Point(),
    "after_claim_commit": Point(),
    "after_claimed": Point(),
    "after_started": Point(in_handler=True),
    "after_handler": Point(in_handler=True),
    "before_commit": Point(in_handler=True),
    "after_commit": Point(),
    "before_verdict": Point("wavers", fails_once=True, in_handler=True),
    "after_verdict": Point("wavers", fails_once=True),
    "in_group": Point("grouped", 150, in_handler=True),
    "before_group_commit": Point("grouped", 150, in_handler=True),
    "after_group_commit": Point("grouped", 150),
    "before_clear": Point("counted", 100, writes=False, held_up_seconds=0.2),
    "before_hand_back": Point("counted", 100, writes=False, held_up_seconds=1.6),
}


@dataclass
class Scene:
    """One point and one victim."""

    name: str
    victim: str
    url: str
    directory: Path
    restart: Callable[[fleets.Work], None] | None = None  # instead of ending sessions

    def play(self) -> None:
        with fleets.work(self.url, self.directory) as work:
            ids = self.point.add(work)
            self.strike(work, ids)
            if self.victim == "parent":
                with fleets.running(self.url, self.directory, *OPTIONS, procs=2):
                    wait_until(work.empty, 60)
            self.check(work, ids)

    @property
    def point(self) -> Point:
        return POINTS[self.name]

    def come_to(self, work: fleets.Work, ids: list[int]) -> bool:
        """Whether it has struck; on a slow machine it takes more tasks until there is a batch."""
        if not (self.directory / "once").exists() and work.empty():
            ids += self.point.add(work)
        return (self.directory / "once").exists()

    def strike(self, work: fleets.Work, ids: list[int]) -> None:
        """Run until the fault has struck, and what remains of the fleet is through."""
        once = self.directory / "once"
        fault = f"{self.name}:{ACTIONS[self.victim]}"
        extra = {"RUNNER_FAULT": fault, "RUNNER_FAULT_ONCE": str(once)}
        with fleets.running(self.url, self.directory, *OPTIONS, procs=1, **extra) as fleet:
            wait_until(lambda: self.come_to(work, ids), 90, f"come to {self.name}")
            if self.victim == "database":
                self.end_sessions(work)
                once.with_suffix(".go").touch()
            if self.victim == "parent":
                fleet.process.wait(20)
            else:
                wait_until(work.empty, 60)
                assert fleet.stop() == 0
                assert "Traceback" not in fleet.log(), fleet.log()

    def end_sessions(self, work: fleets.Work) -> None:
        if self.restart is not None:
            self.restart(work)
            return
        work.conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    def check(self, work: fleets.Work, ids: list[int]) -> None:
        starts = work.noted("start")
        if self.point.writes:
            work.exactly_once(ids)
        assert {int(fields[1]) for fields in starts} == set(ids)
        assert not work.noted("overlap")
        if self.victim != "parent":  # whose workers' rows stay until they are swept
            assert not work.conn.execute("select from runner.worker").fetchall()
        # A death in the handler is charged; an outage, a dead parent and whoever had not begun are not.
        charged = sum(int(fields[2]) > 1 + self.point.fails_once for fields in starts)
        assert charged <= (self.victim == "child" and self.point.in_handler), starts


@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", POINTS)
def test_crash_point(name: str, server: servers.Embedded, tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(len(ACTIONS)) as pool:
        scenes = []
        for victim in ACTIONS:
            url = stack.enter_context(servers.fresh_database(server))
            (tmp_path / victim).mkdir()
            scenes.append(Scene(name, victim, url, tmp_path / victim))
        futures = {scene.victim: pool.submit(scene.play) for scene in scenes}
        wrong = {victim: error for victim, one in futures.items() if (error := one.exception())}
    if wrong:
        raise ExceptionGroup(f"what went wrong at {name}: {list(wrong)}", list(wrong.values()))


# Right after claims it crashes ten times in test_outages.
@pytest.mark.parametrize(
    "name",
    [pytest.param("after_claim_commit", marks=pytest.mark.full), "before_commit", "after_commit"],
)
def test_the_database_crashes_at(name: str, tmp_path: Path) -> None:
    """`pg_ctl stop -m immediate`, and a start: what was committed is there, and nothing else."""
    with hurtable() as (server, url):

        def restart(work: fleets.Work) -> None:
            server.crash()
            server.start()
            reconnect(work)

        Scene(name, "database", url, tmp_path, restart).play()
