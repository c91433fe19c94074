"""The benchmark: workloads and their floors, side by side on one server in one run.

Not part of the installed package. `scripts/bench --help` tells how to run it.
"""
