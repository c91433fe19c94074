"""A private PostgreSQL for machines that have none: made, started and stopped by those who use it.

Every user holds `lock` shared; whoever wants to start or stop the server holds `change.lock` first.
The kernel frees both however a process ends, so the server lives as long as somebody uses it, and
what a killed user left running is used, and in the end stopped, by the next one.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..errors import EmbeddedError
from . import processes, server
from .binaries import Binaries, find_binaries
from .place import (
    Place,
    home,
    make_home,
    open_file,
    place_at,
    try_exclusive,
)

__all__ = ["Binaries", "Embedded", "Status", "find_binaries", "home", "reset", "start", "status"]
__all__ += ["stop"]

CHANGE_SECONDS = 150.0  # longer than a first start, and than a stop with a big checkpoint


class Embedded:
    """One user of the server: it runs at least until `close()`."""

    def __init__(self, place: Place, lock: int) -> None:
        self._place = place
        self._lock = lock
        self._pid = os.getpid()
        self.url = place.url()
        self.environment = place.environment()

    @classmethod
    def open(cls, home: Path | None = None, *, binaries: Path | None = None) -> "Embedded":
        """Start the server if it does not run, and hold it. Raises EmbeddedError with the reason.

        `binaries`: take the programs of this directory instead of searching.
        """
        place = place_at(home)
        make_home(place)
        with _changing(place):
            lock = _lock_file(place, "lock")
            try:
                server.ensure_running(place, alone=try_exclusive(lock), only=binaries)
                fcntl.flock(lock, fcntl.LOCK_SH)
            except OSError as error:
                os.close(lock)
                raise EmbeddedError(f"{error.filename}: {error.strerror}") from error
            except BaseException:
                os.close(lock)
                raise
        return cls(place, lock)

    def fileno(self) -> int:
        """The descriptor of the lock. A forked child that outlives its parent must close it."""
        return self._lock

    def close(self) -> None:
        """Leave; the last one out stops the server, unless `runner db start` keeps it."""
        lock, self._lock = self._lock, -1
        if lock < 0:
            return
        try:
            # A fork shares the lock: to change or drop it there would take it from its parent.
            if os.getpid() == self._pid:
                _leave(self._place, lock)
        finally:
            os.close(lock)

    def __enter__(self) -> "Embedded":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Status:
    """What `runner db status` shows; reading it starts nothing."""

    home: Path
    url: str
    running: bool
    pid: int | None
    version: int | None
    in_use: bool
    keep: bool
    log: Path


def status(home: Path | None = None) -> Status:
    """The server as it is now. Waits for a start or stop that is under way."""
    place = place_at(home)
    running = in_use = False
    if place.home.is_dir() and place.data.exists():
        with _changing(place):
            running, in_use = server.alive(place), not _unused(place)
    return Status(
        home=place.home,
        url=place.url(),
        running=running,
        pid=processes.postmaster(place.data) if running else None,
        version=place.version(),
        in_use=in_use,
        keep=place.keep.exists(),
        log=place.log,
    )


def start(home: Path | None = None, *, binaries: Path | None = None, keep: bool = True) -> str:
    """Start it and, with `keep`, let it run without users until `stop`. Returns its URL."""
    with Embedded.open(home, binaries=binaries) as user:
        if keep:
            user._place.keep.touch()
        return user.url


def stop(home: Path | None = None) -> bool:
    """Keep it no longer; stops it now (True) or when its last user leaves (False)."""
    place = place_at(home)
    if not place.home.is_dir():
        return True
    with _changing(place):
        place.keep.unlink(missing_ok=True)
        if not _unused(place):
            return False
        server.stop(place)
        return True


def reset(home: Path | None = None) -> None:
    """Stop it and delete its data. Raises EmbeddedError while somebody uses it."""
    place = place_at(home)
    if not place.home.is_dir():
        return
    with _changing(place):
        if not _unused(place):
            raise EmbeddedError("the embedded database is in use: nothing was deleted")
        server.stop(place)
        place.keep.unlink(missing_ok=True)
        shutil.rmtree(place.sockets, ignore_errors=True)
        if place.server.exists():
            shutil.rmtree(place.server)


def _leave(place: Place, lock: int) -> None:
    """Stop the server if we are the last. Under the lock for changes nobody can come in between."""
    with _changing(place):
        if try_exclusive(lock) and not place.keep.exists() and processes.serving(place.data):
            server.stop(place)


def _unused(place: Place) -> bool:
    lock = _lock_file(place, "lock")
    try:
        return try_exclusive(lock)
    finally:
        os.close(lock)


@contextmanager
def _changing(place: Place) -> Iterator[None]:
    """Be the only one that starts, stops or looks; EmbeddedError when another never ends."""
    lock = _lock_file(place, "change.lock")
    try:
        end = time.monotonic() + CHANGE_SECONDS
        while not try_exclusive(lock):
            if time.monotonic() > end:
                raise EmbeddedError(f"another command has been changing {place.home} for too long")
            time.sleep(0.02)
        yield
    finally:
        os.close(lock)


def _lock_file(place: Place, name: str) -> int:
    try:
        return open_file(place.home / name)
    except OSError as error:
        raise EmbeddedError(
            f"cannot open {error.filename}: {error.strerror}",
            hint="set RUNNER_HOME to a directory that you can write to",
        ) from error
