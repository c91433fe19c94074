"""A small file system in memory, which can be filled to the last byte. Needs root."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runner.embedded.account import Account

SIZE = 256 << 20  # bytes; a server's data is 50 MB, and its WAL not much more
PIECES = (1 << 20, 4096)  # what the ballast grows by, in bytes


class DiskTrouble(RuntimeError):
    """The file system cannot be mounted."""


def lacking() -> str | None:
    """Why no file system can be filled here; None when one can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    if missing := [name for name in ("mount", "umount") if shutil.which(name) is None]:
        return f"{' and '.join(missing)} is not installed"
    probe = Path(tempfile.mkdtemp(prefix="runner-disk-"))
    try:
        _mount(probe, "size=1m")
    except DiskTrouble as error:
        return str(error)
    finally:
        _unmount(probe)
        probe.rmdir()
    return None


@dataclass
class Disk:
    """What is mounted at a directory, which an account owns."""

    at: Path
    account: Account

    @property
    def ballast(self) -> Path:
        """The file that fills it."""
        return self.at / "ballast"

    def mount(self) -> None:
        """Make the directory, and mount it there."""
        self.at.mkdir(mode=0o700)
        owner = f"uid={self.account.uid},gid={self.account.gid}"
        _mount(self.at, f"size={SIZE},mode=0700,{owner}")

    def fill(self) -> None:
        """Until nothing more can be written."""
        file = os.open(self.ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            self.account.own(self.ballast)
            for piece in PIECES:
                with contextlib.suppress(OSError):  # no space left
                    while True:
                        os.posix_fallocate(file, os.fstat(file).st_size, piece)
        finally:
            os.close(file)

    def clear(self) -> None:
        """There is room again."""
        self.ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        """It is gone, with all that was in it."""
        _unmount(self.at)


def _mount(at: Path, options: str) -> None:
    command = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at))
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise DiskTrouble(done.stderr.partition("\n")[0])


def _unmount(at: Path) -> None:
    # Lazily: whoever has a file open in it must not keep it in the way.
    if at.is_mount():
        subprocess.run(["umount", "-l", str(at)], timeout=30, check=True)
