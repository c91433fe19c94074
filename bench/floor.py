"""The floors: what PostgreSQL itself needs for the same work, by pgbench, with no Python in it."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from bench.fleet import BenchError, checkpoint, environment
from bench.stage import Connection
from runner.embedded import find_binaries

CLIENTS, THREADS = 4, 2
SCRIPTS = Path(__file__).parent / "floors"
LONGEST_SECONDS = 600.0
# As environment, not as argument: a password on a command line is for everybody to read.
VARIABLES = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "user": "PGUSER",
             "password": "PGPASSWORD", "dbname": "PGDATABASE", "options": "PGOPTIONS",
             "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "service": "PGSERVICE",
             "passfile": "PGPASSFILE"}  # fmt: skip


@dataclass(frozen=True)
class Floor:
    """One script, and how many tasks each of its transactions completes."""

    name: str
    script: str
    batch: int = 1


CLAIM_50 = Floor("iii claim 50 + delete 50", "claim50_delete50.sql", 50)
CLAIM_1 = Floor("i claim 1 + delete 1", "claim1_delete1.sql")
EFFECT = Floor("v [effect + delete]", "effect_delete.sql")
CLAIM_EFFECT = Floor("vii claim 1 + [effect + fenced delete]", "claim1_effect_delete.sql")


def pgbench_version() -> str:
    """As it says itself."""
    return _run([_pgbench(), "--version"], {}).strip()


def floor_rate(conn: Connection, url: str, floor: Floor, tasks: int) -> float:
    """Tasks per second, from a filled table to an empty one.

    A number of transactions rather than a duration: no client ever meets an empty table. Each goes on
    from where it last was, as workers do, so that none wades through what the others consumed.
    """
    each = max(1, tasks // CLIENTS // floor.batch)  # transactions of each client
    first = fill_floor(conn, each * CLIENTS * floor.batch)
    variables = {"at": "0", "done": "0", "first": str(first - 1), "each": str(each)}
    command = [_pgbench(), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", str(THREADS)]
    command += ["-t", str(each), "-f", str(SCRIPTS / floor.script)]
    command += [f"-D{name}={value}" for name, value in variables.items()]
    rate = _tps(_run(command, _environment(url))) * floor.batch
    check_done(conn, floor.name)
    return rate


def fill_floor(conn: Connection, count: int) -> int:
    """Make so many rows wait, and nothing else; the first task_id of them, the others follow."""
    conn.execute(sql.SQL((SCRIPTS / "table.sql").read_text()))
    conn.execute("truncate bench.floor, bench.effect")
    checkpoint(conn)
    rows = "insert into bench.floor (task_type) select 'noop' from generate_series(1, %s)"
    conn.execute(rows, [count])
    conn.execute("vacuum (analyze) bench.floor")
    os.sync()
    first = conn.execute("select min(task_id) from bench.floor").fetchone()
    return int(first[0]) if first else 0


def check_done(conn: Connection, name: str) -> None:
    """BenchError when a floor has not done all of it."""
    left = conn.execute("select count(*) from bench.floor").fetchone()
    if left and left[0]:
        raise BenchError(f"floor {name} left {left[0]} rows")


def _pgbench() -> str:
    near = find_binaries().path / "pgbench"
    found = str(near) if near.exists() else shutil.which("pgbench")
    if found is None:
        raise BenchError("no pgbench: install the client programs of PostgreSQL")
    return found


def _environment(url: str) -> dict[str, str]:
    parts = conninfo_to_dict(url)
    return {VARIABLES[name]: str(value) for name, value in parts.items() if name in VARIABLES}


def _run(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"pgbench: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def _tps(output: str) -> float:
    found = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    if found is None or "number of failed transactions: 0 " not in output:
        raise BenchError(f"pgbench said: {output}")
    return float(found[1])
