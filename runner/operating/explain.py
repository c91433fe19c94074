"""Why a task is not running, or why it died: facts in, one true sentence out. Pure."""

from dataclasses import dataclass

from ..text import one_line, plural, safe
from ..units import duration
from . import interruptions
from .circumstances import Facts
from .hosts import LOST, is_silent
from .standing import named

MANY = 10_000  # how many tasks are counted; beyond it there are "more than"
GONE = "done, or never committed (completed tasks are deleted)"
INTERRUPTED = "interrupted too often"


@dataclass(frozen=True, slots=True)
class Gone:
    """An id without a row."""

    task_id: int
    issued: bool
    how: str | None = None
    who: str | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason as one word for programs, and as a sentence for people."""

    reason: str
    sentence: str


def explain(facts: Facts) -> Explanation:
    """The one thing that keeps this task from running, or ended it."""
    match facts.state:
        case "scheduled":
            reason, text = _scheduled(facts)
        case "ready":
            reason, text = _ready(facts)
        case "running":
            reason, text = _running(facts)
        case _:
            reason, text = _dead(facts)
    return Explanation(reason, f"task {facts.task_id} {text}{_before(facts)}")


def _before(facts: Facts) -> str:
    """What a ready or running task went through; of the others it is the reason itself."""
    if facts.state not in ("ready", "running"):
        return ""
    told = interruptions.told(facts.released, facts.max_attempts, facts.cause)
    return f"; {told}" if told else ""


def explain_gone(gone: Gone) -> Explanation:
    """What became of a task that is not there."""
    if gone.how is not None:
        who = safe(gone.who or "?", 200)
        return Explanation(gone.how, f"task {gone.task_id} was {gone.how} by {who} at {gone.at}")
    if gone.issued:
        return Explanation("gone", f"task {gone.task_id} is {GONE}")
    return Explanation("never issued", f"task {gone.task_id} was never issued")


def _scheduled(facts: Facts) -> tuple[str, str]:
    if facts.due_in_seconds <= 0:
        return _due(facts)
    when = f"until {facts.run_at} (in {duration(facts.due_in_seconds)})"
    if facts.run_at == "infinity":
        when = "for ever (run_at is infinity): dead requeue makes it ready"
    if facts.cause == "snoozed":
        return "snoozed", f"is snoozed {when}, as its handler asked"
    if facts.cause is None or not (facts.attempt or facts.released):
        return "scheduled", f"is scheduled {when}"
    if interruptions.is_one(facts.cause):
        return "interrupted", f"waits {when}, {_so_far(facts)}"
    return "backing off", f"is backing off after failure {_attempts(facts)} {when}: {_last(facts)}"


def _due(facts: Facts) -> tuple[str, str]:
    if not facts.staff.workers:
        return (
            "no worker",
            f"is due since {facts.run_at}, but no worker is alive: {_start()}{_nor_here(facts)}",
        )
    return "due", f"is due since {facts.run_at}: the next pass makes it ready"


def _so_far(facts: Facts) -> str:
    told = interruptions.told(facts.released, facts.max_attempts, facts.cause)
    return f"{told or f'interrupted: {_cause(facts)}'}; {_attempts(facts)} attempts spent"


def _ready(facts: Facts) -> tuple[str, str]:
    for judged in (_paused(facts), _unstaffed(facts), _held_up(facts)):
        if judged is not None:
            return judged
    others = f" or one of {_tasks(facts.beside)} of the same priority" if facts.beside else ""
    return "ready", f"is ready, and an idle worker is about to take it{others}"


def _paused(facts: Facts) -> tuple[str, str] | None:
    pause = facts.pause
    if pause is None:
        return None
    endless = pause.until is None or pause.until == "infinity"
    until = "until it is resumed" if endless else f"until {pause.until}"
    return "paused", f"is ready, but its {named(pause.queue, pause.type)} is paused {until}"


def _unstaffed(facts: Facts) -> tuple[str, str] | None:
    staff, queue, kind = facts.staff, safe(facts.queue, 63), safe(facts.type, 255)
    if not staff.workers:
        return "no worker", f"is ready, but no worker is alive: {_start()}{_nor_here(facts)}"
    if not staff.knowing:
        return "unknown type", f"is ready, but no worker alive has a handler for its type {kind}"
    if not staff.serving:
        return "queue not served", f"is ready, but no worker alive serves its queue {queue}"
    if not staff.able:
        return (
            "queue not served",
            f"is ready, but none of the workers that serve its queue {queue}"
            f" has a handler for its type {kind}",
        )
    return None


def _nor_here(facts: Facts) -> str:
    if facts.known_here is not False:
        return ""
    return f"; and the app here has no handler for its type {safe(facts.type, 255)}: runner todo"


def _held_up(facts: Facts) -> tuple[str, str] | None:
    staff = facts.staff
    behind = f"{_tasks(facts.ahead)} of a smaller priority number than its {facts.priority}"
    if not staff.idle:
        who = "the one worker" if staff.able == 1 else f"all {staff.able} workers"
        go_first = f", and {behind} go first" if facts.ahead else ""
        busy = "is" if staff.able == 1 else "are"
        return "workers busy", f"is ready, but {who} that could take it {busy} busy{go_first}"
    if not staff.fit:
        return (
            "lease too short",
            "is ready, but the idle workers that could take it hold too little of their lease"
            " to claim: their renewals fail",
        )
    if staff.leaving == staff.fit:
        return "left by drain", "is ready, but failed in the drain under way, which leaves it"
    if facts.ahead:
        return "behind a class", f"is ready and waits behind {behind}"
    return None


def _running(facts: Facts) -> tuple[str, str]:
    holder = facts.holder
    if holder is None:
        return "orphaned", f"was claimed by a worker that is gone: {_swept(facts)}"
    where = f"pid {holder.pid} on {safe(holder.host, 255)} (slot {holder.slot})"
    if holder.lease_seconds <= 0:
        ago = duration(-holder.lease_seconds)
        return (
            "lease expired",
            f"was claimed by {where}, whose lease expired {ago} ago: {_swept(facts)}",
        )
    left = f"lease for another {duration(holder.lease_seconds)}"
    if is_silent(holder.lease_seconds, holder.silent_seconds):
        left += f"; {LOST.format(duration(holder.silent_seconds))}"
    if holder.others:
        # Which of a batch has begun is known to the worker alone.
        also = _tasks(holder.others).replace("task", "other task")
        return (
            "running",
            f"is held by {where}, which runs it and {also} one after the other:"
            f" attempt {_attempts(facts)}, {left}",
        )
    return (
        "running",
        f"is running: attempt {_attempts(facts)} by {where} for {duration(facts.run_seconds)},"
        f" {left}",
    )


def _swept(facts: Facts) -> str:
    if facts.staff.workers:
        return "the next sweep takes it back"
    return f"a sweep would take it back, but no worker is alive: {_start()}"


def _dead(facts: Facts) -> tuple[str, str]:
    cause = facts.cause or ""
    if cause == "Discard":
        why = _said(facts).removeprefix("Discard: ")
        return (
            "discarded",
            f"is dead: its handler discarded it at attempt {_attempts(facts)}: {why}",
        )
    if cause.startswith(INTERRUPTED):
        last = cause.partition("last: ")[2]
        also = f", the last time by: {safe(last, 200)}" if last else ""
        return "interrupted", f"is dead: {INTERRUPTED}, {facts.released} times{also}"
    if not cause:
        return "dead", "is dead, and nothing says why"
    if facts.max_attempts is not None and facts.attempt < facts.max_attempts:
        text = f"is dead after attempt {_attempts(facts)}: its handler calls this final: {_last(facts)}"
        return "final", text
    reason, how = _ended(facts, cause)
    return reason, f"is dead after {_attempts(facts)} attempts: {how}"


def _ended(facts: Facts, cause: str) -> tuple[str, str]:
    if cause == "time limit":
        return "time limit", "the last one ran into its time limit"
    if cause.startswith(("SIG", "signal ")):
        return "signal", f"its worker process was ended by {_cause(facts)} in the last one"
    if cause.startswith("exit code"):
        return "exit", f"its worker process left with {_cause(facts)} in the last one"
    if cause == "lease expired":
        return "lease expired", "the last one, which ran alone, ended as its lease expired"
    return "attempts", f"the last one failed: {_last(facts)}"


def _attempts(facts: Facts) -> str:
    return f"{facts.attempt} of {'?' if facts.max_attempts is None else facts.max_attempts}"


def _cause(facts: Facts) -> str:
    return safe(facts.cause or "?", 200)


def _said(facts: Facts) -> str:
    """The first line of the handler's own error."""
    lines = (facts.error or "").splitlines()
    return safe(one_line(lines[0]), 200) if lines else "nothing said"


def _last(facts: Facts) -> str:
    """How the last attempt ended: the cause, with what the handler said where that tells of it."""
    cause, said = _cause(facts), _said(facts)
    name = cause.rpartition(".")[2]
    if said == name or said.startswith(f"{name}:"):
        return said
    return cause


def _tasks(count: int) -> str:
    if count > MANY:
        return f"more than {MANY} tasks"
    return plural(count, "task")


def _start() -> str:
    return "runner start"
