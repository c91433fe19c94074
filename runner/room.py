"""Room in the system: how many open files a fleet needs, and errors that say there is none left."""

import errno
import os
import resource

NO_ROOM = (
    71  # a child's exit code (EX_OSERR): it could not begin for want of threads, files or memory
)
FILES_OF_WORKER = 5  # that the parent keeps open for each
FILES_OF_FLEET = (
    36  # and for everything else, those of a worker that is just being started included
)

_FULL = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_soft_before: int | None = None


def is_lacking(error: BaseException) -> bool:
    """Whether an error tells that the system has no more processes, threads, files or memory."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def workers_within(limit: int, used: int) -> int:
    """How many workers there is room for with so many open files allowed and so many in use."""
    return max(0, (limit - used - FILES_OF_FLEET) // FILES_OF_WORKER)


def files_needed(procs: int, used: int) -> int:
    """The limit of open files that a fleet of so many workers needs."""
    return used + FILES_OF_FLEET + procs * FILES_OF_WORKER


def make_room(procs: int) -> tuple[int, int]:
    """Raise this process's own limit of open files as far as a fleet needs it and may.

    Returns the limit as it is then, and how many of `procs` workers it has room for. Children get
    the old limit back (`leave_room`): programs of handlers may rely on it.
    """
    global _soft_before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = _open_files()
    wanted = files_needed(procs, used)
    if 0 <= soft < wanted:
        _soft_before = soft if _soft_before is None else _soft_before
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft, procs if soft < 0 else min(procs, workers_within(soft, used))


def leave_room() -> None:
    """In a child: the limit of open files is what it was before."""
    if _soft_before is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_soft_before, hard))


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 16
