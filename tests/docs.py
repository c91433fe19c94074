"""The fenced blocks of the documents, in their order."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")])
_BLOCK = re.compile(r"(?:^<!-- (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_SQL = re.compile(r"`(select runner\.[^`]+)`")


class Block(NamedTuple):
    """A snippet with its language, the line at which it begins, and the remark in front of it."""

    path: Path
    line: int
    language: str
    text: str
    remark: str

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a document."""
    whole = path.read_text("utf-8")
    return [
        Block(path, whole.count("\n", 0, found.start(3)), found[2], found[3], found[1] or "")
        for found in _BLOCK.finditer(whole)
    ]


def inline_sql(path: Path) -> list[str]:
    """Statements in the running text."""
    return _INLINE_SQL.findall(path.read_text("utf-8"))


def command_lines(path: Path) -> list[tuple[str, str]]:
    """Lines of blocks that call our command, without their comments; with their places."""
    found = []
    for block in blocks(path):
        if block.language in ("", "sh", "console"):
            for number, line in enumerate(block.text.splitlines()):
                command = line.partition("  #")[0].strip()
                if re.match(r"(?:\$ )?(?:scripts/)?runner ", command):
                    found.append((f"{path.name}:{block.line + number}", command))
    return found
