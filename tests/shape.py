"""Writes what schema.sql makes as `runner/store/shape.txt`, for `runner doctor`: python -m tests.shape

To be run whenever schema.sql changes; tests/db/test_doctor.py fails until it is.
"""

from pathlib import Path

import psycopg

from runner.store import doctor, schema
from tests import servers


def text(url: str) -> str:
    """The file's text, from a database that has just the schema."""
    with psycopg.connect(url, autocommit=True) as conn:
        return "".join(f"{thing}\t{shape}\n" for thing, shape in doctor.shape(conn).items())


def main() -> None:
    """Make a server, a database with the schema in it, and the file."""
    with servers.throw_away_server() as server:
        url = servers.create_database(server, "runner_shape")
        with psycopg.connect(url, autocommit=True) as conn:
            schema.install(conn)
        path = Path(doctor.__file__).with_name(doctor.SHAPE)
        path.write_text(text(url), "utf-8")


if __name__ == "__main__":
    main()
