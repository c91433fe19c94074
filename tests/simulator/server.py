"""Whether the database can be reached, and through which sessions."""

from .process import Process, Session
from .world import World


class Server:
    """Whether the database is there, and its sessions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.up = True
        self.may_terminate = world.mix.terminate
        if self.may_terminate is None:
            self.may_terminate = world.rng.random() < 0.6
        self.sessions: dict[bytes, Session] = {}  # of workers
        self.all: list[Session] = []

    def connect(self, process: Process) -> Session | None:
        if not self.up:
            return None
        session = Session(process)
        self.all = [one for one in self.all if not one.over]
        self.all.append(session)
        return session

    def terminate(self, worker: bytes) -> None:
        """pg_terminate_backend, where we may."""
        session = self.sessions.pop(worker, None)
        if session is not None and self.may_terminate:
            session.end()

    def go_down(self, seconds: float) -> None:
        self.up = False
        for session in self.all:
            session.end()
        self.all = []
        self.world.after(seconds, self.come_up)

    def come_up(self) -> None:
        self.up = True
