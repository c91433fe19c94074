"""`scripts/hosts`: many hosts on one queue, each a fleet in a network namespace of its own.

Who did what is told by the server: the table `effect` has the address of the session that wrote a row,
and the server's time, as defaults.
"""
