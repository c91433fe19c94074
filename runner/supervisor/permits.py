"""Permits to start a handler, as bytes in a pipe: a worker takes one before it claims, and gives it
back when it starts nothing, so that `--max-tasks` counts handler starts exactly."""

import os

from .child import Child


class Permits:
    """The parent's side. `ends` are the descriptors that workers take along."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._owed = total  # not yet in the pipe: it holds 64 KiB

    @property
    def ends(self) -> dict[str, int]:
        """Both ends, for a worker."""
        return {"permits": self._read, "permits_back": self._write}

    def top_up(self, starts: int, workers: list[Child]) -> None:
        """Put what is still owed into the pipe, and replace permits that died with a worker.

        A worker that holds nothing holds no permit. So when all are idle and the pipe is empty, what
        is missing from the total has been lost.
        """
        if self._owed:
            try:
                self._owed -= os.write(self._write, b"." * min(self._owed, 4096))
            except BlockingIOError:
                return
        elif starts < self.total and _all_idle(workers) and not self._any_left():
            self._owed = self.total - starts

    def _any_left(self) -> bool:
        try:
            taken = os.read(self._read, 1)
        except BlockingIOError:
            return False
        os.write(self._write, taken)
        return True


def _all_idle(workers: list[Child]) -> bool:
    return bool(workers) and all(child.idle for child in workers)
