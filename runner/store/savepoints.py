"""The savepoints of a group's tasks: each task can be undone, and none can reach into another's work."""

import os

DEEPEST = (
    16  # the server looks through all that are open, for each row that the transaction has written
)


class Savepoints:
    """Their names, in one transaction.

    They are nested, which is cheaper than releasing each. What a handler may have opened itself is
    released before the next one runs, or that could go back to it, and undo what is deleted as done. No
    name is used twice, so that none is gone back to by mistake, and nobody can guess one.
    """

    def __init__(self) -> None:
        self._prefix = b"runner_" + os.urandom(4).hex().encode()
        self._outermost = self._current = 0

    @property
    def current(self) -> bytes:
        """The savepoint of the task that runs, or runs next."""
        return self._name(self._current)

    def keep(self, *, left_some: bool) -> bytes | None:
        """On to the next task; the savepoint to release before, with all inside it, where that is due.
        `left_some`: the last task may have left savepoints of its own."""
        outermost, self._current = self._outermost, self._current + 1
        if not left_some and self._current - outermost < DEEPEST:
            return None
        self._outermost = self._current
        return self._name(outermost)

    def _name(self, number: int) -> bytes:
        return b"%b_%d" % (self._prefix, number)
