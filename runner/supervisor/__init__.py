"""The parent of a fleet: it forks everybody, keeps the deadline of every lease, and kills the overdue.

`supervisor` is the loop; its `run` and `turn` are the story. Behind each of their steps are a few rooms:

    wait            the selector of the family
    read_signals    signals -> stopping (TERM, INT), succession (HUP), suspension (Ctrl-Z)
    read_events     inbox -> child (what it says of itself), leases (what the renewer answers)
    reap_children   deaths -> reaper (waitpid, and words for it); its claims go to be settled
    turn            leases: ask for them, end the overdue, hand back what is hoarded -> renewals
                    staff: who should be there -> starts (when again), spawn, succession (heirs)
                    stopping: at the goal -> goals (never, or when drained)
                    told to others: feed (console), tallies (maintainer), notify (service manager)

What the rooms share: `family`, the table of living children and what is done to one; `course`, how the
run stands; `means`, what was opened before the first fork; `role`, what there is to know of a kind of
child. `child`, `goals` and `starts` are pure: the clock is an argument. Nothing here imports psycopg,
click, rich or threading, and nothing waits but the selector, and for some milliseconds the inbox.
"""
