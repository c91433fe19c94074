"""Burying children: what a death means for the claims of the dead, and for the fleet."""

import os
from dataclasses import replace

from .. import cgroup, kernel, postmortem
from ..clock import now
from ..room import NO_ROOM
from ..wire import NO_ID, How, Settle
from . import reaper
from .child import Child, Why
from .course import Course
from .family import Family
from .renewals import Renewals
from .starts import Starts

DISCONNECTED = "connection lost"


class Deaths:
    """Reaps by pid, has claims settled, and tells what happened in words."""

    def __init__(self, family: Family, course: Course, renewals: Renewals, starts: Starts) -> None:
        self.family = family
        self.course = course
        self.renewals = renewals
        self.starts = starts
        self.log = family.log
        self._oom_kills = cgroup.oom_kills()
        self._spared = kernel.children_of(os.getpid())  # an embedded server is nobody's victim

    def next(self) -> Child | None:
        """The next child that has ended, still on the process table; strangers are buried quietly."""
        while (pid := reaper.next_dead()) is not None:
            if (child := self.family.by_pid.get(pid)) is not None:
                return child
            reaper.reap(pid)
        return None

    def bury(self, child: Child) -> None:
        """Take it off the table; all that it had said before must have been heard."""
        # While it is a zombie its number is nobody else's: only then can its group be killed by it.
        reaper.kill_group(child.pid)
        death = reaper.reap(child.pid)
        stack = _stack_of(child)
        self.family.remove(child)
        self.course.changed(now())
        how = child.how_it_ended(now(), death.by_kill and child.kill_for is None)
        cause = self._cause(child, death, how)
        by_others = death.by_kill and how is How.DIED and child.kill_for is None
        text = postmortem.told(stack, death.peak_bytes if by_others else None)
        self._tell(child, death, cause, text)
        if child.worker != NO_ID and child.role.holds_leases:
            # Idle ones as well: a claim may have been committed of which its worker never heard.
            self._settle(child, how, cause, text)
        if child.hello_at is None and self.course.stop is None:
            self._failed_start(child, death, cause)
        self.renewals.forget_renewer(child)
        reaper.kill_strays(self.family.by_pid, self._spared)

    def _settle(self, child: Child, how: How, cause: str, text: str | None) -> None:
        for worker in (*child.former, child.worker):
            self.renewals.settle(_settle_of(child, worker, how, cause, text))

    def _tell(self, child: Child, death: reaper.Death, cause: str, text: str | None) -> None:
        fields = {"slot": child.slot, "pid": child.pid, "cause": cause, "post_mortem": text}
        if child.work is not None:
            told = f"{child.name} ended in task {child.work.task}: {cause}"
            self.log.warning("worker_died", told, task=child.work.task, **fields)
            self.course.mourn(told)
        elif self._is_news(child, death):
            told = f"{child.name} ended: {cause}"
            self.log.warning("child_died", told, **fields)
            self.course.mourn(told)
        else:
            self.log.debug("child_ended", f"{child.name} ended", slot=child.slot, pid=child.pid)

    def _is_news(self, child: Child, death: reaper.Death) -> bool:
        """Whether an end outside of any task was not asked for, or not in this way: a hook can crash
        one that leaves."""
        if child.refused:
            return False
        asked = self.course.stop is not None or child.stopping
        return not asked or (death.code != 0 and child.kill_for is None)

    def _failed_start(self, child: Child, death: reaper.Death, cause: str) -> None:
        if child.follows or death.code == NO_ROOM:
            # Whom it was to follow is there still, or others will leave: a reason to wait, never to
            # give up.
            self.starts.no_room(child.role.name, now())
            return
        self.starts.failed(child.role.name, now())
        if child.role.holds_leases and any(one.hello_at for one in self.family.workers()):
            return  # the others work: a deployment that went wrong is no reason to stop them
        if child.refused:
            self.course.end("could not start", child.refused)
        elif self.starts.hopeless and self.course.end("could not start", child.refused or 70):
            self.log.error("fatal", f"{child.role.name}s keep dying at start: {cause}")

    def _cause(self, child: Child, death: reaper.Death, how: How) -> str:
        if how is How.LEASE_LOST and child.kill_for is None and not child.past_its_lease(now()):
            return Why.DEAF.value
        if how is How.LEASE_LOST:
            return Why.LEASE.value
        if how is How.DISCONNECTED:
            return DISCONNECTED
        why = child.kill_for or (child.term_for if child.work is not None else None)
        if why is not None:
            return why.value
        if death.by_kill and self._memory_was_short():
            return "out of memory"
        return death.cause

    def _memory_was_short(self) -> bool:
        """Whether the kernel has killed for want of memory, here, since it was last asked."""
        before, self._oom_kills = self._oom_kills, cgroup.oom_kills()
        return self._oom_kills > before


def _settle_of(child: Child, worker: bytes, how: How, cause: str, text: str | None) -> Settle:
    work, sent, done = child.work, child.sent, tuple(child.done_tasks)
    if work is None:
        return Settle(worker, how, done=done, sent=sent.task if sent else 0, type=child.type)
    settle = Settle(
        worker,
        how,
        work.task,
        work.fence,
        cause,
        text,
        done,
        type=child.type,
        seconds=now() - work.started_at,
    )
    if sent is None:
        return settle
    return replace(settle, sent=sent.task, sent_seconds=work.started_at - sent.started_at)


def _stack_of(child: Child) -> str:
    """What it wrote of where its handler stood; nothing of an attempt before."""
    if child.stack < 0:
        return ""
    asked = child.asked_stack_of
    stale = bool(asked) and (child.work is None or child.work.fence != asked)
    return "" if stale else postmortem.read(child.stack)
