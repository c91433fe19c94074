"""L0: the protocol under a seeded simulator.

Real: the parent (`runner.supervisor`: its turns, leases, deaths, staff, children, requests), what
decides in workers and helpers (`judge`, `renewing`, `observing`, a worker's own lease, its hand-off),
and the bytes of requests and tokens. Played: the kernel, the clocks, the database's rows, and the order
in which a worker does things. The invariants are those of the design; each is looked at where it can
break.

    python -m tests.simulator --faults 1000000          a campaign
    python -m tests.simulator --seed 17                 one history again
    python -m tests.simulator --guards                  each guard taken out in turn
"""
