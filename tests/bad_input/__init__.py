"""Bad input: a clear line, the right exit code, nothing lost.

`python -m tests.bad_input` prints every case with what the command answered.
"""
