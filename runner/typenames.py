"""The names of the task types that the workers of a fleet have handlers for, in a file they share.

The parent never loads the app. So each worker adds what it knows to an unlinked file that all inherit;
the maintainer and a drain's summary read it.
"""

import contextlib
import json
import os
from collections.abc import Collection

from .memfile import new_file


class TypeNames:
    """The file, shared by all processes that are forked after it was made."""

    def __init__(self) -> None:
        self.fd = new_file()

    def tell(self, names: Collection[str]) -> None:
        """Add these; one `write`, so whole. What is there is not added again: workers come and go."""
        known = self.read()
        if known is None or not known.issuperset(names):
            os.write(self.fd, json.dumps(sorted(names)).encode() + b"\n")

    def read(self) -> set[str] | None:
        """All that were added so far; None as long as no worker has told any."""
        lines = os.pread(self.fd, os.fstat(self.fd).st_size, 0).splitlines()
        found: set[str] | None = None
        for line in lines:
            with contextlib.suppress(ValueError):
                found = (found or set()).union(json.loads(line))
        return found
