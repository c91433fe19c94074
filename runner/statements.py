"""The named statements of `store/queries/*.sql` as text: who enqueues may have another driver."""

from functools import cache
from pathlib import Path

_QUERIES = Path(__file__).parent / "store" / "queries"


def statement(name: str) -> str:
    """The text of this name, with `%(name)s` for its parameters; KeyError when there is none."""
    return statements()[name]


@cache
def statements() -> dict[str, str]:
    """Every statement by its name; read once."""
    found: dict[str, str] = {}
    for path in sorted(_QUERIES.glob("*.sql")):
        for block in path.read_text("utf-8").split("-- name: ")[1:]:
            name, _, text = block.partition("\n")
            if name.strip() in found:
                raise ValueError(f"two statements are called {name}")
            found[name.strip()] = _without_comments(text)
    return found


def _without_comments(text: str) -> str:
    # What is sent at every claim need not carry its explanation.
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().rstrip(";")
