"""How much a worker process has done and grown, and when it is to be followed by another."""

import os
from dataclasses import dataclass

from .. import kernel
from ..config import FleetConfig
from ..logpipe import LogPipe
from ..wire import EventWriter, Kind
from .pace import MOST
from .telling import Telling


@dataclass
class Wear:
    """Tells the parent once that this process has grown too large."""

    config: FleetConfig
    telling: Telling
    events: EventWriter
    log: LogPipe
    _told: bool = False
    _warned: bool = False

    def tasks_left(self) -> int:
        """How many this process may still begin."""
        most = self.config.max_tasks_per_child
        return MOST if most is None else max(0, most - self.telling.started)

    def look(self) -> None:
        """Compare its size with the limit. It goes on until it is followed; one that was so large before
        its first task would be followed for ever, and only says so."""
        size = self.config.max_memory_per_child
        if size is None or self._told or (rss := kernel.rss_of(os.getpid())) <= size:
            return
        if self.telling.started:
            self._told = True
            self.events.send(Kind.WORN, count=rss)
        elif not self._warned:
            self._warned = True
            what = f"a worker has {rss >> 20} MiB before its first task"
            self.log.warning("memory_limit", f"{what}, more than --max-memory-per-child", rss=rss)
