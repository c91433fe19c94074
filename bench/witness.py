"""What the handlers saw, without a word to the database: counters in memory shared with the bench.

Counting done tasks in the table reads every row, and pg_stat_user_tables is up to a second behind and
tells nothing of a session that stays busy. So a handler adds one to a counter in a mapped file, some
60 ns, and the bench reads all counters at any moment it likes. A handler runs at most one group of
deletes before its task is gone; the end of a measurement is therefore the table's (see rates.py).
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path

VARIABLE = "RUNNER_BENCH_WITNESS"
SLOTS = 256  # processes that can have been there in one run of a fleet
STARTED = struct.Struct("qq")  # task id, CLOCK_MONOTONIC in nanoseconds


class Counter:
    """The handlers' side: one counter a process."""

    def __init__(self, path: Path) -> None:
        # The lock on a slot ends with its process; the next one goes on from the count it finds.
        self._file = os.open(path / "counts", os.O_RDWR)
        self._slot = next(slot for slot in range(SLOTS) if self._take(slot))
        self._counts = memoryview(mmap.mmap(self._file, SLOTS * 8)).cast("q")
        self._starts = os.open(path / "starts", os.O_WRONLY | os.O_NONBLOCK)

    def _take(self, slot: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except OSError:
            return False
        return True

    def add(self) -> None:
        """One more handler has run in this process."""
        self._counts[self._slot] += 1

    def started(self, task_id: int, at_ns: int) -> None:
        """A handler started; whole in the pipe, whoever else writes."""
        os.write(self._starts, STARTED.pack(task_id, at_ns))


class Witness:
    """The bench's side, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "counts").write_bytes(bytes(SLOTS * 8))
        os.mkfifo(directory / "starts")
        self._file = os.open(directory / "counts", os.O_RDWR)
        self._map = mmap.mmap(self._file, SLOTS * 8)
        self._counts = memoryview(self._map).cast("q")
        self.starts = os.open(directory / "starts", os.O_RDWR | os.O_NONBLOCK)

    def total(self) -> int:
        """Handlers that have run in all processes."""
        return sum(self._counts)

    def busy(self) -> int:
        """Processes that have run at least one."""
        return sum(1 for count in self._counts if count)

    def drop_starts(self) -> None:
        """Forget starts that nobody has read."""
        while self.read_starts():
            pass

    def read_starts(self) -> list[tuple[int, int]]:
        """The starts written since; empty when there are none."""
        try:
            data = os.read(self.starts, 64 * STARTED.size)
        except BlockingIOError:
            return []
        return list(STARTED.iter_unpack(data))

    def close(self) -> None:
        """Let go of the files."""
        self._counts.release()
        self._map.close()
        os.close(self._file)
        os.close(self.starts)
