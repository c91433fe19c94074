"""`python -m tests.cases.without` takes out one fix after the other, each in a copy of the project, and
runs the case that it is for: that must fail. Ends with 1 when one does not."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
LONGEST_SECONDS = 400
MOST_TOLD = 120  # characters of what a test said


class Fix(NamedTuple):
    """What is taken out, what stands there instead, and the test that must notice."""

    case: str
    what: str
    file: str
    text: str
    instead: str
    test: str


FIXES = (
    Fix("P-05", "the kernel's timer that ends a worker with its lease", "handling/lifeline.py",
        "if (at := self._lease.ends_us_at) is None:", "if True:",
        "test_lease.py::test_p05_a_pause_longer_than_the_lease"),
    Fix("P-13", "a claimed task leaves the set of unique ones", "schema.sql",
        "    where fence = 0 and unique_key is not null;", "    where unique_key is not null;",
        "test_enqueue.py::test_p13_a_task_enqueues_itself"),
    Fix("P-14", "whatever a handler raises ends the attempt, not the worker", "handling/calling.py",
        "except BaseException as raised:", "except Exception as raised:",
        "test_handler_exit.py::test_p14_sys_exit_is_a_failure"),
    Fix("P-16", "signals are told by their names", "supervisor/reaper.py",
        "signal.Signals(self.signal).name", "str(self.signal)",
        "test_handler_exit.py::test_p16_signals_are_named"),
    Fix("P-18", "NUL is escaped in what is stored", "text.py",
        'return text.replace("\\0", "\\\\x00")', "return text",
        "test_data.py::test_p18_nul_in_the_text_of_an_error"),
    Fix("P-20", "what a task has started is killed behind it", "handling/restore.py",
        "for pid in left:\n                killed", "for pid in ():\n                killed",
        "test_process_state.py::test_p20_programs_do_not_outlive_their_task"),
    Fix("P-22", "our idle timeout is not the handler's", "store/queries/session.sql",
        "set idle_in_transaction_session_timeout = 0;", "",
        "test_connection.py::test_p22_the_servers_idle_timeout_does_not_hit_handlers[6.5]"),
    Fix("P-35", "what is no record of ours is skipped", "wire/events.py",
        "found = data.find(_MAGIC_BYTES, at + 1)", "found = at + EVENT_SIZE",
        "test_fork.py::test_p35_torn_and_foreign_records"),
    Fix("P-43", "lone surrogates are escaped in what is stored", "text.py",
        "if not text.isascii():", "if False:",
        "test_error_texts.py::test_p43_a_lone_surrogate_in_the_error_text"),
    Fix("P-45", "signals that a handler has changed are put back", "handling/restore.py",
        "signal.signal(number, handler)", "pass",
        "test_processes.py::test_p45_signals_that_a_handler_has_changed"),
    Fix("P-59", "the working directory is put back", "handling/restore.py",
        "os.fchdir(self._cwd)", "pass",
        "test_processes.py::test_p59_a_changed_working_directory"),
    Fix("P-61", "now and then the classes are left out of a claim", "handling/looking.py",
        "fair=self._rng.random() < self._config.fair", "fair=False",
        "test_waiting.py::test_p61_a_flood_of_the_first_class_starves_nobody"),
)  # fmt: skip


def main(names: list[str]) -> int:
    """Each, or those named; a line for each. With every fix in its place all of the tests pass."""
    fixes = [fix for fix in FIXES if not names or fix.case in names]
    with copied() as place:
        whole = _run(place, *(fix.test for fix in fixes))
        assert whole.returncode == 0, whole.stdout + whole.stderr
    missed = 0
    for fix in fixes:
        with copied() as place:
            _take_out(fix, place / "runner" / fix.file)
            said = _failure(_run(place, fix.test))
        missed += said is None
        print(f"{fix.case} | {fix.what} | {fix.test} | {said or 'NOT NOTICED'}", flush=True)
    return int(missed > 0)


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the project, for as long as that lasts."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".tox", "__pycache__", "*.egg-info")
    with tempfile.TemporaryDirectory(prefix="runner-without-") as home:
        yield shutil.copytree(ROOT, Path(home) / "copy", symlinks=True, ignore=ignored)


def _take_out(fix: Fix, file: Path) -> None:
    text = file.read_text()
    assert text.count(fix.text) == 1, f"{fix.case}: {fix.file} has it {text.count(fix.text)} times"
    file.write_text(text.replace(fix.text, fix.instead))


def _run(place: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    names = [f"tests/cases/{test}" for test in tests]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "full or not full", *names], cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)}, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip


def _failure(done: subprocess.CompletedProcess[str]) -> str | None:
    """What did not hold, in the test or in what is looked at behind it; None when all passed."""
    if done.returncode == 0:
        return None
    found = re.findall(r"^(?:>|E) +(\S.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    told = [" ".join(line.split()) for line in found if not line.startswith("with ")]
    return " / ".join(told[:2])[:MOST_TOLD]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
