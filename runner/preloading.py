"""Loading the app in the parent of a fleet, before it forks: where `--preload` asks for it."""

import gc
import threading

from . import app


def preload(name: str, app_dir: str) -> list[str]:
    """Import the app in a process that is going to fork, for its pages to be shared; the names of the
    threads that this left behind. They are in no child, and what they held locked is locked there for
    good. AppError as of `app.load`."""
    before = set(threading.enumerate())
    app.load(name, app_dir)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page
    return sorted(thread.name for thread in set(threading.enumerate()) - before)
