"""Every Python and SQL snippet of the documents, run in its order, and what the runner makes of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

import runner
from chaos.faults.servers import CALL_BACK
from runner.registry import Registry
from runner.testing import Drained, drain
from tests.db.doors import django_connection
from tests.db.stage import one
from tests.docs import ROOT, blocks, inline_sql
from tests.servers import Connection, wait_until

pytestmark = pytest.mark.db


class Payments:
    """A service that remembers keys; the answer to the first call gets lost."""

    def __init__(self) -> None:
        self.by_key: dict[str, int] = {}
        self.calls = 0

    def charge(self, amount: int, idempotency_key: str) -> str:
        self.calls += 1
        self.by_key.setdefault(idempotency_key, amount)
        if self.calls == 1:
            raise ConnectionError("no answer")
        return f"paid under {idempotency_key}"


class Mailer:
    """A mail service that drops a second mail with the same key; the first answer gets lost."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, str]] = {}
        self.calls = 0

    def send(self, recipient: str, body: str, idempotency_key: str) -> None:
        self.calls += 1
        self.sent.setdefault(idempotency_key, (recipient, body))
        if self.calls == 1:
            raise ConnectionError("no answer")


class Storage:
    """A service that keeps the last state, and refuses an older fence."""

    def __init__(self, server: Callable[[], list[str]]) -> None:
        self.of: dict[str, tuple[int, str]] = {}
        self.server = server
        self.transactions: list[str] = []

    def put(self, name: str, text: str, fence: int) -> None:
        self.transactions = self.server()
        if fence < self.of.get(name, (0, ""))[0]:
            raise PermissionError("there is a newer holder")
        self.of[name] = (fence, text)


class Page:
    """A document that has been run from top to bottom."""

    def __init__(self, path: Path, db: Connection, url: str, **names: Any) -> None:
        self.db = db
        self.names: dict[str, Any] = {"DSN": url, "psycopg": psycopg, "runner": runner, **names}
        for block in blocks(path):
            before = self.count()
            if block.language == "python":
                exec(compile(block.text, block.place, "exec"), self.names)
            elif block.language == "sql":
                db.execute(block.text)
            if block.remark == "adds no task":
                assert self.count() == before, block.place

    @property
    def tasks(self) -> Registry:
        registry = self.names["tasks"]
        assert isinstance(registry, Registry)
        return registry

    def count(self) -> int:
        return int(one(self.db, "select count(*) from runner.task"))

    def drain(self, **options: Any) -> Drained:
        return drain(self.db, self.tasks, **options)

    def run(self, task_type: str, params: Any, **options: Any) -> Drained:
        """Only this task, with its retries."""
        self.db.execute("delete from runner.task")
        assert runner.enqueue(self.db, task_type, params, **options) is not None
        return self.drain(retries=True)


@pytest.fixture
def engine(db_url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(db_url)
    )
    yield engine
    engine.dispose()


@pytest.fixture
def django(db_url: str) -> Iterator[None]:
    """The default connection of Django leads to this database."""
    import contextlib

    import django.db

    with contextlib.ExitStack() as stack:
        django.db.connections["default"] = django_connection(db_url, stack)
        yield
        del django.db.connections["default"]


@pytest.fixture
def page(db: Connection, db_url: str, engine: sqlalchemy.Engine, django: None) -> Page:
    query = """select application_name from pg_stat_activity
               where datname = current_database() and xact_start is not null
               and pid <> pg_backend_pid()"""

    def transactions() -> list[str]:
        with psycopg.connect(db_url, autocommit=True) as conn:
            return [row[0] for row in conn.execute(query)]

    storage = Storage(transactions)
    services = {"payments": Payments(), "mailer": Mailer(), "storage": storage, "engine": engine}
    return Page(ROOT / "docs" / "handlers.md", db, db_url, **services)


def test_what_the_page_enqueues_is_done(page: Page) -> None:
    types = "select task_type, count(*) from runner.task group by 1 order by 1"
    assert page.db.execute(types).fetchall() == [
        ("SendEmail", 1),
        ("register_upload", 2),
        ("resize_photo", 6),
    ]
    drained = page.drain()
    assert (drained.ok, drained.errors) == (9, [])
    made = page.db.execute("select path from thumbnail order by 1").fetchall()
    assert made == [(f"{name}.jpg",) for name in "adefgh"]
    photos = page.db.execute("select path from photo order by 1").fetchall()
    assert photos == [(f"{name}.jpg",) for name in "abcdeghi"]
    assert one(page.db, "select recipient from outbox") == "a@example.com"
    assert "resize_photo" in page.names["seen"]


def test_the_fixture_of_the_page(page: Page, runner_drain: Any) -> None:
    page.db.execute("delete from runner.task")
    page.names["test_thumbnail"](page.db, runner_drain)


def test_a_lost_answer_charges_once(page: Page) -> None:
    drained = page.run("charge", {"order": 1, "amount": 7}, key="order 1")
    assert (drained.ok, drained.retried) == (1, 1)
    assert page.names["payments"].by_key == {"order 1": 7}
    assert one(page.db, "select reference from payment") == "paid under order 1"


def test_an_older_holder_is_refused(page: Page) -> None:
    storage = page.names["storage"]
    assert page.run("publish", {"text": "first"}).ok == 1
    older = storage.of["report"][0]
    assert page.run("publish", {"text": "second"}).ok == 1
    with pytest.raises(PermissionError):
        storage.put("report", "late", fence=older)
    assert storage.of["report"][1] == "second"


def test_long_work_holds_no_transaction(page: Page) -> None:
    page.db.execute("insert into photo values ('long.jpg')")
    assert page.run("publish_photo", {"path": "long.jpg"}).ok == 2
    assert page.names["storage"].transactions == []
    assert one(page.db, "select count(*) from thumbnail where path = 'long.jpg'") == 1
    with psycopg.connect(page.names["DSN"]) as conn:  # one would have been seen
        conn.execute("select 1")
        assert len(page.names["storage"].server()) == 1


def test_an_outbox_and_a_lost_answer_send_one_mail(page: Page) -> None:
    page.db.execute("delete from outbox")
    drained = page.run("accept_order", {"customer": "b@example.com"})
    assert (drained.ok, drained.retried) == (2, 1)
    mailer = page.names["mailer"]
    assert mailer.calls == 2
    assert list(mailer.sent.values()) == [("b@example.com", "Thank you for your order.")]
    message, sent = page.db.execute("select message_id, sent_at from outbox").fetchone() or (
        0,
        None,
    )
    assert sent is not None
    assert page.run("dispatch", {"message": message}).ok == 1  # once more, by mistake
    assert mailer.calls == 2


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(404, "dead"), (429, "retried"), (202, "snoozed"), (451, "dead"), (200, "ok")],
)
def test_outcomes(page: Page, status: int, outcome: str) -> None:
    page.db.execute("delete from runner.task")
    runner.enqueue(page.db, "fetch", {"status": status, "url": "/"})
    assert getattr(page.drain(), outcome) == 1


def test_the_others(page: Page) -> None:
    assert page.run("remember", {"path": "a.jpg"}).ok == 1
    assert page.run("import_lines", {"lines": ["x.jpg", "y.jpg"]}).ok == 1
    assert page.run("count_view", {"path": "z.jpg"}).ok == 1
    query = "select count(*) from photo where path in ('x.jpg', 'y.jpg', 'z.jpg')"
    assert one(page.db, query) == 3
    assert {handler.name for handler in page.tasks} >= {"remember", "import_lines", "count_view"}


def test_readme(db: Connection, db_url: str) -> None:
    db.execute("create table photo (path text); create table thumbnail (path text)")
    page = Page(ROOT / "README.md", db, db_url)
    statements = inline_sql(ROOT / "README.md")
    assert statements
    for statement in statements:
        db.execute(statement)
    drained = page.drain()
    assert (drained.ok, drained.errors) == (2, [])
    assert one(db, "select count(*) from thumbnail where path = 'a.jpg'") == 2


def test_what_was_put_off_by_a_wrong_clock_is_called_back(db: Connection) -> None:
    """Claimed in an hour's time, and due a second after that; claimed before and swept then; no
    other task that waits. The fault of the soak heals with the same statement."""
    add = """insert into runner.task (task_type, state, run_at, fence, cause)
             select 't', 'scheduled', clock_timestamp() + make_interval(secs => %s),
                    extract(epoch from clock_timestamp() + make_interval(secs => %s)) * 1000000, %s"""
    expired = "lease expired"
    for due, claimed, cause in (
        (3601, 3600, None),
        (7200, -5, None),
        (10, 3600, None),
        (3602, -5, expired),
        (10, -5, expired),
    ):
        db.execute(add, [due, claimed, cause])
    (block,) = blocks(ROOT / "docs" / "reliability.md")
    assert block.text.split() == CALL_BACK.split()
    assert db.execute(CALL_BACK).rowcount == 2
    left = """select array_agg(round(extract(epoch from run_at - created_at) / 60) order by task_id)
              from runner.task"""
    assert one(db, left) == [0, 120, 0, 0, 0]


@pytest.fixture
def moving(db: Connection, db_url: str) -> Page:
    return Page(ROOT / "docs" / "migrating.md", db, db_url)


def test_what_the_page_on_moving_enqueues_is_done(moving: Page) -> None:
    wait_until(lambda: one(moving.db, "select count(*) from runner.task where run_at < now()") == 3)
    moving.db.execute("update runner.task set state = 'ready'")
    drained = moving.drain()
    assert (drained.ok, drained.errors) == (3, [])
    assert one(moving.db, "select words from word_count") == 6
    assert one(moving.db, "select count(*) from photo where album_id = 0") == 2
    again = runner.enqueue(moving.db, "count_words", {"text": "a"}, key="count 1")
    assert again is None


def test_a_chord_of_the_page(moving: Page) -> None:
    """A photo that fails at first; the album is published once, after all of them."""
    moving.db.execute("insert into photo values ('2.jpg', 9)")
    paths = [f"{number}.jpg" for number in range(5)]
    moving.db.execute("delete from runner.task")
    runner.enqueue(moving.db, "start_album", {"album": 1, "paths": paths})
    drained = moving.drain()
    assert (drained.ok, drained.retried) == (5, 1)
    assert one(moving.db, "select published_at from album") is None
    assert one(moving.db, "select waiting from album") == 1
    moving.db.execute("delete from photo where album_id = 9")
    moving.db.execute("update runner.task set state = 'ready', run_at = now()")
    assert moving.drain().ok == 2
    assert one(moving.db, "select count(*) from photo where album_id = 1") == 5
    assert one(moving.db, "select published_at from album") is not None


def test_a_script_as_a_task(moving: Page, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("x")
    params = {"source": str(tmp_path / "data"), "target": str(tmp_path / "data.tgz")}
    assert moving.run("archive", params).ok == 1
    assert one(moving.db, "select bytes from archive") == (tmp_path / "data.tgz").stat().st_size
    params["source"] = str(tmp_path / "nothing")
    assert moving.run("archive", params).dead == 1
