"""Clocks that are wrong, by libfaketime: one is off, and one is set while programs run by it."""

import glob
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
HOUR_SECONDS = 3600


def lacking() -> str | None:
    """Why no clock can be wrong here; None when one can."""
    return None if LIBRARIES else "libfaketime (Debian: faketime) is not installed"


def off_by(hours: int) -> dict[str, str]:
    """An environment in which every clock is the one on the wall, and that one is off."""
    return {"LD_PRELOAD": LIBRARIES[0], "FAKETIME": f"{hours:+}h"}


@dataclass
class Clock:
    """The clock on the wall, as a file tells it to the programs that are started by it.

    They read the file at each look, so that all of them see a jump at once, as on a real machine; a
    clock that counts from the machine's start is the true one.
    """

    file: Path
    hours: int = 0  # how far it is off

    def __post_init__(self) -> None:
        self.set(self.hours)

    def set(self, hours: int) -> None:
        """From now on it is off by so many hours."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{hours * HOUR_SECONDS:+}")
        new.chmod(0o644)
        new.replace(self.file)  # nobody reads half a number
        self.hours = hours

    def command(self) -> tuple[str, ...]:
        """What runs a command by this clock."""
        fixed = ("FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1")
        file = f"FAKETIME_TIMESTAMP_FILE={self.file}"
        return ("env", f"LD_PRELOAD={LIBRARIES[0]}", file, *fixed)
