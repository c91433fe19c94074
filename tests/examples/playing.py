"""An example in a directory of its own, on the test's database, and its README to type from."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from tests.docs import ROOT, Block, block
from tests.servers import wait_until
from tests.terminal import Terminal


class Play:
    """A copy of `examples/NAME`, and a terminal in it."""

    def __init__(self, name: str, directory: Path, url: str) -> None:
        self.name = name
        self.directory = directory / name
        shutil.copytree(ROOT / "examples" / name, self.directory)
        self.url = url
        self.terminal = Terminal(self.directory, url)

    def block(self, containing: str) -> Block:
        return block(f"examples/{self.name}/README.md", containing)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as conn:
            cursor = conn.execute(query)
            return cursor.fetchall() if cursor.description else []

    def states(self) -> dict[str, int]:
        return dict(self.rows("select state, count(*) from runner.task group by 1"))

    def wait(self, fact: Callable[[], Any], why: str) -> Any:
        return wait_until(fact, 30, why)
