"""Loads the named statements of `queries/*.sql`, once, when it is imported."""

from importlib import resources

from psycopg import sql


def _load() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((resources.files(__package__) / "queries").iterdir(), key=str):
        if path.name.endswith(".sql"):
            for block in path.read_text("utf-8").split("-- name: ")[1:]:
                name, _, text = block.partition("\n")
                if name in found:
                    raise ValueError(f"two statements are called {name}")
                found[name.strip()] = _without_comments(text)
    return found


def _without_comments(text: str) -> str:
    # What is sent at every claim need not carry its explanation.
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip().rstrip(";")


_STATEMENTS = _load()


def query(name: str) -> sql.SQL:
    """The statement of this name; KeyError when there is none."""
    return sql.SQL(_STATEMENTS[name])


def names() -> list[str]:
    """Every statement's name."""
    return list(_STATEMENTS)
