"""Yesterday's sales by region. `python tasks.py` creates the tables."""

import os
from dataclasses import dataclass

import psycopg

import runner

tasks = runner.Registry()

TABLES = """
create table if not exists sale (at timestamptz not null, region text not null, amount numeric not null);
create table if not exists report (
    day date, region text, sales bigint not null, amount numeric not null, primary key (day, region)
);
"""


@tasks.task
def nightly_report(tx, task):
    """One task more for each region: they are there if and only if this one completes."""
    day = task.params["day"]
    regions = tx.execute(
        "select distinct region from sale where at >= %s::date and at < %s::date + 1", [day, day]
    ).fetchall()
    items = [{"day": day, "region": region} for (region,) in regions]
    runner.enqueue_many(tx, items, type="RegionReport")


@tasks.task(timeout="10m")
@dataclass
class RegionReport:
    day: str
    region: str

    def process(self, tx, task):
        tx.execute(
            """insert into report (day, region, sales, amount)
               select %(day)s, %(region)s, count(*), sum(amount) from sale
               where at >= %(day)s::date and at < %(day)s::date + 1 and region = %(region)s""",
            {"day": self.day, "region": self.region},
        )


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        conn.execute(TABLES)
