"""scripts/release in a clone: when it refuses, that it stops at a failed check, and that what it builds
works where nothing else is installed."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.embedded import stop
from tests.docs import ROOT
from tests.servers import reachable_directory

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made in a clone"),
]
NOTES = "## [0.1.0] - 2026-01-31\n\n### Added\n\n- All of it.\n"
NOBODY = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def sh(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=cwd, env=kept | NOBODY | env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def git(clone: Path, *arguments: str) -> str:
    result = sh("git", *arguments, cwd=clone)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What is on disk here, committed, with notes for this version."""
    path = tmp_path / "clone"
    path.mkdir()
    listing = sh("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).stdout
    there = [name for name in listing.split("\0") if name and os.path.lexists(ROOT / name)]
    for name in there:
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode)
    git(path, "init", "-q")
    with (path / "CHANGELOG.md").open("a") as file:
        file.write(NOTES)
    commit(path)
    return path


def commit(clone: Path) -> None:
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "a")


def release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return sh("scripts/release", *arguments, cwd=clone)


def replace(clone: Path, name: str, old: str, new: str) -> None:
    text = (clone / name).read_text("utf-8")
    assert old in text
    (clone / name).write_text(text.replace(old, new), "utf-8")


def test_it_refuses_what_is_not_ready(clone: Path) -> None:
    assert release(clone, "--now").returncode == 2
    (clone / "new").touch()
    assert "not committed" in release(clone).stderr
    (clone / "new").unlink()
    git(clone, "tag", "v0.1.0")
    assert "there is a tag v0.1.0" in release(clone).stderr
    git(clone, "tag", "--delete", "v0.1.0")
    for old, new in ((" - 2026-01-31", ""), ("- All of it.", "")):
        replace(clone, "CHANGELOG.md", old, new)
        commit(clone)
        result = release(clone)
        assert result.returncode == 78
        assert "CHANGELOG.md tells nothing under '## [0.1.0]" in result.stderr
        git(clone, "reset", "-q", "--hard", "HEAD~")


@pytest.mark.parametrize("check", ["lint", "test"])
def test_a_check_that_fails_ends_it(clone: Path, check: str) -> None:
    """The checks themselves would take an hour; here one says no."""
    for name in ("lint", "test"):
        (clone / "scripts" / name).write_text(f"#!/bin/sh\nexit {int(name == check)}\n")
    commit(clone)
    assert release(clone).returncode == 1
    assert git(clone, "tag") == ""
    assert not (clone / "dist").exists()


@pytest.fixture
def home() -> Iterator[Path]:
    with reachable_directory() as path:
        yield path / "home"
        stop(path / "home")


@pytest.mark.full
@pytest.mark.timeout(900)
def test_what_is_built_works_where_nothing_else_is(clone: Path, home: Path) -> None:
    """Needs a package index, as an installation does."""
    for name in ("lint", "test"):
        (clone / "scripts" / name).write_text("#!/bin/sh\n")
    commit(clone)
    result = release(clone)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("PASSED") == 2, result.stdout
    assert git(clone, "tag") == "v0.1.0\n"
    assert "twine upload" in result.stderr
    wheel, sdist = sorted((clone / "dist").iterdir(), key=lambda path: path.suffix, reverse=True)
    assert (wheel.suffix, sdist.name) == (".whl", "pgbatch_runner-0.1.0.tar.gz")
    packed = sh("tar", "tf", str(sdist), cwd=clone).stdout
    for name in ("schema.sql", "tests/conftest.py", "docs/handlers.md", "scripts/test", "tox.ini"):
        assert f"pgbatch_runner-0.1.0/{name}\n" in packed
    valid_classifiers(wheel, clone)
    for number, archive in enumerate((wheel, sdist)):
        empty = clone.parent / f"empty{number}"
        install(empty, f"{archive}[embedded]")
        use(empty, clone.parent, home)


def install(empty: Path, *what: str) -> None:
    venv.create(empty, with_pip=True)
    command = ("-I", "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)
    result = sh(str(empty / "bin" / "python"), *command, cwd=empty)
    assert result.returncode == 0, result.stderr


def valid_classifiers(wheel: Path, clone: Path) -> None:
    tools = clone.parent / "tools"
    install(tools, "trove-classifiers")
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith("/METADATA")]
        metadata = files.read(name).decode()
    found = set(re.findall(r"^Classifier: (.*)$", metadata, re.MULTILINE))
    source = "import trove_classifiers as t; print(*t.classifiers, sep='\\n')"
    known = sh(str(tools / "bin" / "python"), "-I", "-c", source, cwd=clone).stdout.splitlines()
    assert found
    assert found - set(known) == set()


def use(empty: Path, elsewhere: Path, home: Path) -> None:
    """Types, schema, and real work under the embedded server, none of it from the checkout."""
    command, python = str(empty / "bin" / "runner"), str(empty / "bin" / "python")
    source = "import runner, pathlib; p = pathlib.Path(runner.__file__).parent; print(p)"
    package = Path(sh(python, "-I", "-c", source, cwd=elsewhere).stdout.strip())
    assert package.is_relative_to(empty)
    assert (package / "py.typed").is_file()
    printed = sh(command, "init", "--sql", cwd=elsewhere).stdout
    assert printed.strip() == (ROOT / "schema.sql").read_text("utf-8").strip()
    assert sh(command, "--version", cwd=elsewhere).stdout.split()[-1] == "0.1.0"
    (elsewhere / "files").mkdir(exist_ok=True)
    for number in range(300):
        (elsewhere / "files" / str(number)).write_text("x\n" * number)
    told = sh(command, "demo", "files", "--json", cwd=elsewhere, RUNNER_HOME=str(home))
    assert told.returncode == 0, told.stderr
    counts = json.loads(told.stdout)
    assert (counts["files"], counts["rows"], counts["lost"], counts["doubled"]) == (300, 300, 0, 0)
    assert sys.prefix not in told.stderr
