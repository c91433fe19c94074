"""The benchmark: workloads and pgbench floors, side by side on one server in one run.

Not part of the installed package. `scripts/bench --help` tells how to run it.
"""
