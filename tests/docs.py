"""The fenced blocks of the documents, in their order, and which test runs each of them.

A block is run from the document itself, never from a copy in a test: `block()` fetches its text. One
that nothing runs is listed with the reason. A new block that is neither fails `tests/unit/test_docs.py`.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    ]
)
_BLOCK = re.compile(r"(?:^<!-- (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_SQL = re.compile(r"`(select runner\.[^`]+)`")

# By document: how a block begins, with its fence or with its first line, and the test that runs it.
_READING = "tests/db/test_docs.py::test_what_the_page_enqueues_is_done"
_TYPED = "tests/process/test_typed.py"
_OPERATED = "tests/process/test_operations.py"
_FOLLOWED = "tests/process/test_contributing.py"
_CHART = "test_every_change_is_an_arrow_and_every_arrow_a_change"
RUN = {
    "README.md": {
        "```python": "tests/db/test_docs.py::test_readme",
        "export DATABASE_URL=": f"{_TYPED}::test_the_first_commands_of_readme",
        "runner enqueue slow": f"{_TYPED}::test_the_walk_of_readme",
        "* * * * *": f"{_TYPED}::test_the_cron_line_of_readme",
    },
    "ARCHITECTURE.md": {"enqueue -> ": f"tests/unit/test_architecture.py::{_CHART}"},
    "CONTRIBUTING.md": {
        "```sql": f"{_FOLLOWED}::test_the_query_and_the_verb",
        "# file: runner/store/": f"{_FOLLOWED}::test_the_query_and_the_verb",
        "# file: runner/cli/": f"{_FOLLOWED}::test_the_query_and_the_verb",
        "# file: runner/roles/": f"{_FOLLOWED}::test_the_role_is_there_and_is_replaced",
        "# method of:": f"{_FOLLOWED}::test_the_role_is_there_and_is_replaced",
        "scripts/release": "tests/process/test_release.py::test_it_refuses_what_is_not_ready",
    },
    "docs/handlers.md": {"```python": _READING, "```sql": _READING},
    "docs/migrating.md": {
        "```python": "tests/db/test_docs.py::test_what_the_page_on_moving_enqueues_is_done",
        "```sql": "tests/db/test_docs.py::test_what_the_page_on_moving_enqueues_is_done",
        "15 3 * * *": f"{_TYPED}::test_the_crontab_of_the_page_on_moving",
    },
    "docs/operations.md": {
        "export DATABASE_URL=postgresql": f"{_OPERATED}::test_the_first_steps",
        "PATH=": f"{_OPERATED}::test_the_entry_for_cron",
        "export DATABASE_URL='": f"{_OPERATED}::test_the_entry_for_cron",
        "```yaml": f"{_OPERATED}::test_alerts_are_about_figures_that_there_are",
        "runner status --check": f"{_OPERATED}::test_a_night",
        "runner status  ": f"{_OPERATED}::test_a_night",
        "runner pause": f"{_OPERATED}::test_a_night",
        "import runner\nimport sentry_sdk": (
            f"{_OPERATED}::test_failures_go_to_sentry_without_params"
        ),
        "import runner\nimport runner.otel": f"{_OPERATED}::test_every_attempt_is_a_span",
        'eval "': f"{_OPERATED}::test_completion",
    },
    "docs/reliability.md": {
        "```sql": "tests/db/test_docs.py::test_what_was_put_off_by_a_wrong_clock_is_called_back"
    },
    "examples/outbox/README.md": {
        "export": "tests/examples/test_outbox.py::test_a_mail_for_each_account_and_none_besides"
    },
    "examples/convert/README.md": {
        "export": "tests/examples/test_convert.py::"
        "test_every_file_is_converted_and_the_broken_one_is_on_the_board"
    },
    "examples/report/README.md": {
        "export": "tests/examples/test_report.py::test_two_nights_by_cron",
        "runner enqueue": "tests/examples/test_report.py::test_a_day_by_hand",
    },
}
# The same for those that no test runs, with the reason.
NOT_RUN = {
    "docs/operations.md": {
        "python3 -m venv": "it installs from the network into /srv",
        "sudo ": "it needs systemd as process 1; the units: tests/unit/test_deploy.py",
    },
    "README.md": {
        "scripts/runner demo": "it installs from the network, and the second command runs this test;"
        " the demo itself: tests/process/test_cli_demo.py",
    },
    "ARCHITECTURE.md": {"runner start --procs 8": "a picture"},
    "CONTRIBUTING.md": {
        "git clone URL": "it needs the network, and runs the suite that this is part of",
        "python3 -m venv": "the same",
    },
}


class Block(NamedTuple):
    """A snippet with its language, the line at which it begins, and the remark in front of it."""

    path: Path
    line: int
    language: str
    text: str
    remark: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def document(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def begins(self, beginning: str) -> bool:
        return self.text.startswith(beginning) or f"```{self.language}" == beginning


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a document."""
    whole = path.read_text("utf-8")
    return [
        Block(path, whole.count("\n", 0, found.start(3)), found[2], found[3], found[1] or "")
        for found in _BLOCK.finditer(whole)
    ]


def block(document: str, containing: str) -> Block:
    """The first block of a document that contains a text."""
    return next(each for each in blocks(ROOT / document) if containing in each.text)


def typed(each: Block) -> list[str]:
    """The lines of a block as somebody types them: without remarks, continuations joined."""
    text = re.sub(r"\\\n\s*", "", each.text)
    lines = (re.split(r"(?:^|\s\s+)# ", line)[0].strip() for line in text.splitlines())
    return [line.removeprefix("$ ") for line in lines if line]


def ways(each: Block) -> list[str]:
    """What runs a block, and why nothing does; it should be one in all."""
    told = [*RUN.get(each.document, {}).items(), *NOT_RUN.get(each.document, {}).items()]
    return [way for beginning, way in told if each.begins(beginning)]


def inline_sql(path: Path) -> list[str]:
    """Statements in the running text."""
    return _INLINE_SQL.findall(path.read_text("utf-8"))


def command_lines(path: Path) -> list[tuple[str, str]]:
    """Lines of blocks that call our command, without their comments; with their places."""
    return [
        (each.place, line)
        for each in blocks(path)
        if each.language in ("", "sh", "console")
        for line in typed(each)
        if re.match(r"(?:scripts/)?runner ", line)
    ]
