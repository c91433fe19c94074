"""CSV to compressed JSON lines. `python tasks.py` creates the table."""

import csv
import gzip
import hashlib
import json
import os
from pathlib import Path

import psycopg

import runner

tasks = runner.Registry()

TABLE = "create table if not exists converted (path text primary key, rows int, sha256 text)"


@tasks.task(timeout="5m", discard_on=(ValueError, FileNotFoundError))
def convert(tx, task):
    """A broken file stays broken: it is dead at once, and the reason is on the board."""
    source = Path(task.params["path"])
    rows = list(read(source))
    target = source.with_suffix(".jsonl.gz")
    digest = write(target, rows)
    tx.execute(
        "insert into converted (path, rows, sha256) values (%s, %s, %s)"
        " on conflict (path) do update set rows = excluded.rows, sha256 = excluded.sha256",
        [str(target), len(rows), digest],
    )


def read(source):
    with source.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            if None in row or None in row.values():
                raise ValueError(f"row {number} has not as many fields as the header")
            yield row


def write(target, rows):
    """The same rows give the same bytes; the SHA-256 of what was written."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = gzip.compress(text.encode(), mtime=0)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    partial.write_bytes(data)
    partial.replace(target)
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        conn.execute(TABLE)
