"""One true sentence for each reason: the facts in it are those that went in."""

from dataclasses import replace

import pytest

from runner.operating.circumstances import Facts, Holder, Pause, Staff
from runner.operating.explain import Gone, explain, explain_gone
from runner.supervisor.child import Why

AT = "2030-01-31T12:00:00+00:00"
ONE_IDLE = Staff(workers=1, serving=1, knowing=1, able=1, idle=1, fit=1)
READY = Facts(7, "ready", "mail", "send", staff=ONE_IDLE)
SCHEDULED = Facts(7, "scheduled", run_at=AT, due_in_seconds=300.0, max_attempts=5, staff=ONE_IDLE)
DEAD = Facts(7, "dead", attempt=5, max_attempts=5)
RUNNING = Facts(7, "running", attempt=2, max_attempts=5, run_seconds=3.0, staff=ONE_IDLE)
HOLDER = Holder("box", 99, 3, 25.0)
LEASE_TIMER = Why.DEAF.value
READY_TEXT = "is ready, and an idle worker is about to take it"

SITUATIONS = [
    (SCHEDULED, "scheduled", f"is scheduled until {AT} (in 5m00s)"),
    (
        replace(SCHEDULED, attempt=2, cause="ValueError", error="ValueError: bad\nmore"),
        "backing off",
        f"is backing off after failure 2 of 5 until {AT} (in 5m00s): ValueError: bad",
    ),
    (
        replace(SCHEDULED, attempt=2, cause="SIGSEGV", error="ValueError: of an earlier one"),
        "backing off",
        f"is backing off after failure 2 of 5 until {AT} (in 5m00s): SIGSEGV",
    ),
    (
        replace(SCHEDULED, cause="snoozed"),
        "snoozed",
        f"is snoozed until {AT} (in 5m00s), as its handler asked",
    ),
    (
        replace(SCHEDULED, cause="lease lost", released=2, attempt=1),
        "interrupted",
        f"waits until {AT} (in 5m00s), interrupted 2 times without charge (dead after 15),"
        " last: lease lost; 1 of 5 attempts spent",
    ),
    (
        replace(SCHEDULED, cause=LEASE_TIMER, released=1, max_attempts=3),
        "interrupted",
        f"waits until {AT} (in 5m00s), interrupted 1 time without charge (dead after 9),"
        f" last: {LEASE_TIMER}; perhaps a handler that holds the GIL in C: give it a longer --lease;"
        " 0 of 3 attempts spent",
    ),
    (
        replace(READY, cause=LEASE_TIMER, released=1, max_attempts=3, staff=Staff(4, 4, 4, 4)),
        "workers busy",
        "is ready, but all 4 workers that could take it are busy;"
        f" interrupted 1 time without charge (dead after 9), last: {LEASE_TIMER};"
        " perhaps a handler that holds the GIL in C: give it a longer --lease",
    ),
    (replace(READY, cause="stopped", released=1), "ready", READY_TEXT),
    (
        replace(SCHEDULED, run_at="infinity", due_in_seconds=1e10),
        "scheduled",
        "is scheduled for ever (run_at is infinity): dead requeue makes it ready",
    ),
    (
        replace(SCHEDULED, due_in_seconds=-1.0),
        "due",
        f"is due since {AT}: the next pass makes it ready",
    ),
    (
        replace(SCHEDULED, due_in_seconds=-1.0, staff=Staff()),
        "no worker",
        f"is due since {AT}, but no worker is alive: runner start",
    ),
    (READY, "ready", "is ready, and an idle worker is about to take it"),
    (
        replace(READY, beside=3),
        "ready",
        "is ready, and an idle worker is about to take it or one of 3 tasks of the same priority",
    ),
    (
        replace(READY, pause=Pause("mail", None, None)),
        "paused",
        "is ready, but its queue mail is paused until it is resumed",
    ),
    (
        replace(READY, pause=Pause(None, "send", AT)),
        "paused",
        f"is ready, but its type send is paused until {AT}",
    ),
    (
        replace(READY, pause=Pause("mail", "send", "infinity")),
        "paused",
        "is ready, but its type send in queue mail is paused until it is resumed",
    ),
    (replace(READY, staff=Staff()), "no worker", "is ready, but no worker is alive: runner start"),
    (
        replace(READY, staff=Staff(workers=2, serving=2)),
        "unknown type",
        "is ready, but no worker alive has a handler for its type send",
    ),
    (
        replace(READY, staff=Staff(workers=2, knowing=2)),
        "queue not served",
        "is ready, but no worker alive serves its queue mail",
    ),
    (
        replace(READY, staff=Staff(workers=2, knowing=1, serving=1)),
        "queue not served",
        "is ready, but none of the workers that serve its queue mail has a handler for its type send",
    ),
    (
        replace(READY, staff=Staff(4, 4, 4, 4)),
        "workers busy",
        "is ready, but all 4 workers that could take it are busy",
    ),
    (
        replace(READY, staff=Staff(1, 1, 1, 1), ahead=2),
        "workers busy",
        "is ready, but the one worker that could take it is busy,"
        " and 2 tasks of a smaller priority number than its 5 go first",
    ),
    (
        replace(READY, staff=Staff(1, 1, 1, 1, 1, 0)),
        "lease too short",
        "is ready, but the idle workers that could take it hold too little of their lease to claim:"
        " their renewals fail",
    ),
    (
        replace(READY, staff=Staff(1, 1, 1, 1, 1, 1, 1)),
        "left by drain",
        "is ready, but failed in the drain under way, which leaves it",
    ),
    (
        replace(READY, ahead=10_001),
        "behind a class",
        "is ready and waits behind more than 10000 tasks of a smaller priority number than its 5",
    ),
    (
        replace(RUNNING, holder=HOLDER),
        "running",
        "is running: attempt 2 of 5 by pid 99 on box (slot 3) for 3.0s, lease for another 25.0s",
    ),
    (
        replace(RUNNING, holder=replace(HOLDER, lease_seconds=13.0, silent_seconds=17.0)),
        "running",
        "is running: attempt 2 of 5 by pid 99 on box (slot 3) for 3.0s, lease for another 13.0s;"
        " its lease was not renewed for 17.0s: its host or parent is perhaps gone",
    ),
    (
        replace(READY, staff=Staff(), known_here=False),
        "no worker",
        "is ready, but no worker is alive: runner start;"
        " and the app here has no handler for its type send: runner todo",
    ),
    (
        replace(RUNNING, holder=replace(HOLDER, others=1)),
        "running",
        "is held by pid 99 on box (slot 3), which runs it and 1 other task one after the other:"
        " attempt 2 of 5, lease for another 25.0s",
    ),
    (
        replace(RUNNING, holder=replace(HOLDER, lease_seconds=-4.0)),
        "lease expired",
        "was claimed by pid 99 on box (slot 3), whose lease expired 4.0s ago:"
        " the next sweep takes it back",
    ),
    (
        replace(RUNNING, holder=replace(HOLDER, lease_seconds=-4.0), staff=Staff()),
        "lease expired",
        "was claimed by pid 99 on box (slot 3), whose lease expired 4.0s ago:"
        " a sweep would take it back, but no worker is alive: runner start",
    ),
    (RUNNING, "orphaned", "was claimed by a worker that is gone: the next sweep takes it back"),
    (
        replace(DEAD, cause="ValueError", error="ValueError: bad"),
        "attempts",
        "is dead after 5 of 5 attempts: the last one failed: ValueError: bad",
    ),
    (
        replace(
            DEAD, cause="psycopg.errors.UniqueViolation", error="UniqueViolation: twice (23505)"
        ),
        "attempts",
        "is dead after 5 of 5 attempts: the last one failed: UniqueViolation: twice (23505)",
    ),
    (
        replace(DEAD, cause="Discard", attempt=1, error="Discard: no use"),
        "discarded",
        "is dead: its handler discarded it at attempt 1 of 5: no use",
    ),
    (
        replace(DEAD, cause="KeyError", attempt=1, error="KeyError: 'x'"),
        "final",
        "is dead after attempt 1 of 5: its handler calls this final: KeyError: 'x'",
    ),
    (
        replace(DEAD, cause="interrupted too often, last: lease lost", released=16),
        "interrupted",
        "is dead: interrupted too often, 16 times, the last time by: lease lost",
    ),
    (
        replace(DEAD, cause="SIGKILL (perhaps out of memory)", error="ValueError: earlier"),
        "signal",
        "is dead after 5 of 5 attempts: its worker process was ended by"
        " SIGKILL (perhaps out of memory) in the last one",
    ),
    (
        replace(DEAD, cause="exit code 0"),
        "exit",
        "is dead after 5 of 5 attempts: its worker process left with exit code 0 in the last one",
    ),
    (
        replace(DEAD, cause="time limit"),
        "time limit",
        "is dead after 5 of 5 attempts: the last one ran into its time limit",
    ),
    (
        replace(DEAD, cause="lease expired"),
        "lease expired",
        "is dead after 5 of 5 attempts: the last one, which ran alone, ended as its lease expired",
    ),
    (DEAD, "dead", "is dead, and nothing says why"),
]


@pytest.mark.parametrize(("facts", "reason", "rest"), SITUATIONS, ids=lambda one: str(one)[:40])
def test_a_sentence_for_each_reason(facts: Facts, reason: str, rest: str) -> None:
    told = explain(facts)
    assert (told.reason, told.sentence) == (reason, f"task 7 {rest}")


@pytest.mark.parametrize(
    ("gone", "reason", "rest"),
    [
        (Gone(7, True), "gone", "is done, or never committed (completed tasks are deleted)"),
        (Gone(7, False), "never issued", "was never issued"),
        (Gone(7, True, "cancelled", "me", AT), "cancelled", f"was cancelled by me at {AT}"),
        (Gone(7, True, "discarded", None, AT), "discarded", f"was discarded by ? at {AT}"),
    ],
)
def test_a_sentence_for_what_is_gone(gone: Gone, reason: str, rest: str) -> None:
    told = explain_gone(gone)
    assert (told.reason, told.sentence) == (reason, f"task 7 {rest}")


def test_the_nearer_reason_wins() -> None:
    paused = replace(READY, pause=Pause("mail", None, None), staff=Staff(), ahead=9)
    assert explain(paused).reason == "paused"
    assert explain(replace(READY, staff=Staff(workers=1), ahead=9)).reason == "unknown type"


@pytest.mark.parametrize("evil", ["\x1b[31mred", "two\nlines", "\u202eback", "nul\0", "[bold]x"])
def test_what_comes_from_outside_cannot_act(evil: str) -> None:
    for facts, _, _ in SITUATIONS:
        changed = replace(facts, queue=evil, type=evil, error=f"{evil}: {evil}")
        if facts.pause is not None:
            changed = replace(changed, pause=Pause(evil, evil, None))
        if facts.holder is not None:
            changed = replace(changed, holder=replace(facts.holder, host=evil))
        assert explain(changed).sentence.isprintable()
    assert explain_gone(Gone(7, True, "cancelled", evil, AT)).sentence.isprintable()
