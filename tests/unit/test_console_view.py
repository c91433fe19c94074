"""The frame, as text: at several widths as it stands in the files, and whatever the strings in it."""

import io
import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from runner.console.layout import divide, share
from runner.console.picture import svg
from runner.console.state import Circumstances, Deed, Question, State, press
from runner.console.view import render
from runner.operating.hosts import by_host
from tests.data import NAUGHTY
from tests.scenes import CLOCK, NOW, hostile, night_shift, three_hosts

FRAMES = Path(__file__).parent.parent / "data" / "console"
SIZES = ((20, 24), (60, 30), (100, 34), (200, 40))
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    *NAUGHTY,
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "[bold]markup[/]",
    "[/]",
    "a\rb",
]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    __import__("time").tzset()


def drawn(scene, width: int, height: int, **options) -> str:  # type: ignore[no-untyped-def]
    return render(scene, width, height, NOW, CLOCK, **options).plain


def in_terminal(scene, width: int, height: int) -> str:  # type: ignore[no-untyped-def]
    """What a terminal with colours is sent."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=width)
    console.print(render(scene, width, height, NOW, CLOCK), end="")
    return out.getvalue()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("view", [1, 2, 3, 4, 5])
def test_frames(width: int, height: int, view: int) -> None:
    stands(f"view{view}-{width}", drawn(night_shift(State(view=view)), width, height))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("view", [1, 2])
def test_frames_of_several_hosts(width: int, height: int, view: int) -> None:
    stands(f"hosts{view}-{width}", drawn(three_hosts(State(view=view)), width, height))


def stands(name: str, found: str) -> None:
    """As in its file. To write the files anew: RUNNER_TEST_WRITE=1."""
    text = "\n".join(line.rstrip() for line in found.split("\n")) + "\n"
    path = FRAMES / f"{name}.txt"
    if os.environ.get("RUNNER_TEST_WRITE"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("width", [1, 2, 7, 20, 39, 60, 81, 100, 133, 200, 500])
@pytest.mark.parametrize("height", [1, 2, 5, 9, 24, 60])
def test_every_frame_fits(width: int, height: int) -> None:
    asks = Question("stop? 3 tasks in hand " * 9, Deed("stop", {}))
    details = {"title": "task 7", "lines": [("params", "{\n 1\n}" * 99), ("why", "x" * 999)]}
    states = [State(view=view) for view in range(1, 6)]
    states += [State(question=asks), State(help=True), State(details=details, scroll=3)]
    states += [State(paused=True), State(note="n" * 500, note_until=NOW + 1)]
    states += [State(cursor=("worker", ("alpha", 4101))), State(view=4, cursor=("dead", 640))]
    states += [State(cursor=("host", "beta"))]
    for make, state in itertools.product((night_shift, three_hosts), states):
        lines = drawn(make(state), width, height).split("\n")
        assert len(lines) == height
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_hostile_reaches_the_terminal(text: str) -> None:
    details = {"title": text, "lines": [(text, text), ("x", {text: text})]}
    states = [State(view=view) for view in range(1, 6)]
    states += [State(note=text, note_until=NOW + 1), State(view=4, details=details)]
    states += [State(view=3, question=Question(text, Deed("stop", {})))]
    for state, width in itertools.product(states, (20, 100)):
        scene = hostile(text)
        scene.state = state
        left = COLOURS.sub("", in_terminal(scene, width, 30)).replace("\n", "")
        assert all(one.isprintable() or one in "\u200c\u200d" or one.isspace() for one in left)
        assert not set(left) & set("\x1b\x07\x08\r\t\x9b\u202e\u2066\u2028")
        assert drawn(scene, width, 30, unicode=False).isascii()


def test_a_hostile_name_is_still_told() -> None:
    assert r"\x1b]0;title\x07" in drawn(hostile("\x1b]0;title\x07"), 200, 40)
    assert "[bold]markup[/]" in drawn(hostile("[bold]markup[/]"), 200, 40)


def test_ascii_only_keeps_the_columns() -> None:
    with_signs = drawn(night_shift(), 100, 34).split("\n")
    without = drawn(night_shift(), 100, 34, unicode=False).split("\n")
    assert [len(one) for one in without] == [cell_len(one) for one in with_signs]
    assert "".join(without).isascii()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"trouble": "connection refused", "trouble_since": NOW - 12},
            "no answer from the database",
        ),
        ({"fleet": None, "owns_fleet": False}, "↑↓ choose  1-5 views  space hold  ? help  q leave"),
    ],
)
def test_what_must_be_told(change, told: str) -> None:  # type: ignore[no-untyped-def]
    assert told in drawn(replace(night_shift(), **change), 100, 34)


def test_old_counts_are_called_old_and_a_lost_lease_is_told() -> None:
    scene = night_shift()
    assert scene.snapshot is not None
    assert scene.fleet is not None
    scene.snapshot = replace(scene.snapshot, counted_at=NOW - 30)
    assert "tasks were counted 30.0s ago" in drawn(scene, 100, 34)
    scene.fleet["away_since"] = NOW - 7
    assert "leases have not been renewed for 7.0s" in drawn(scene, 100, 34)
    scene.snapshot.status["leases_expired"] = 2
    assert "the lease of 2 workers has expired" in drawn(scene, 100, 34)


def test_while_the_database_is_away_the_parent_is_believed() -> None:
    scene = night_shift()
    scene.trouble = "gone"
    assert scene.fleet is not None
    scene.fleet["workers"][0] |= {"task": 999, "started_at": NOW - 2}
    scene.fleet["workers"][1] |= {"task": None}
    first, second, *_ = scene.workers(NOW)
    assert (first["task"], first["type"], first["run_seconds"]) == (999, None, 2.0)
    assert (second["state"], second["task"]) == ("idle", None)


def test_every_age_runs_on_while_the_database_is_away() -> None:
    """One and the same task must not be of two ages in one frame."""
    scene = night_shift()
    assert scene.snapshot is not None
    scene.trouble, scene.snapshot = "gone", replace(scene.snapshot, counted_at=NOW - 600.0)
    frame = render(scene, 200, 40, NOW, CLOCK).plain
    (header,) = re.findall(r"oldest (\S+)", frame)
    assert header == "11m14s"
    assert re.search(rf"^not_there_yet .* {header} ", frame, re.MULTILINE), frame
    assert re.search(r"^ *639  send_invoice +3  11m35s ", frame, re.MULTILINE), frame


def test_a_next_try_that_has_come_is_due() -> None:
    """Between two looks at the database it comes and passes."""
    scene = night_shift(State(view=4))
    assert scene.snapshot is not None
    (failing,) = scene.snapshot.failing
    for seconds, shown in ((3.5, "3.0s"), (0.5, "due"), (0.1, "due")):
        told = failing | {"next_try_seconds": seconds}
        scene.snapshot = replace(scene.snapshot, failing=[told])
        frame = drawn(scene, 200, 40)
        assert re.search(rf"^ *send_invoice +4 +{re.escape(shown)} ", frame, re.MULTILINE), frame


def test_a_line_that_is_cut_ends_in_a_mark() -> None:
    scene = night_shift()
    (first, *rest) = scene.log
    scene.log = [first | {"message": "long " * 99}, *rest]
    (line,) = (one for one in drawn(scene, 60, 34).splitlines() if "long long" in one)
    assert line.endswith("…")
    assert cell_len(line) == 60


def test_a_fleet_is_told_from_the_first_moment() -> None:
    scene = night_shift()
    assert scene.fleet is not None
    assert scene.snapshot is not None
    scene.fleet |= {"workers": [], "at": scene.snapshot.taken_at - 1}
    assert scene.running() == 3  # the parent has not yet said whom it has started
    assert {one["state"] for one in scene.workers(NOW)} == {"running", "idle"}
    scene.fleet["at"] = NOW
    assert {one["state"] for one in scene.workers(NOW)} == {"ended"}
    assert " 0 workers " in drawn(scene, 100, 34).splitlines()[0]
    scene.fleet["runner"] = "r2"  # another fleet of this host
    assert scene.running() == 0
    assert {one["state"] for one in scene.workers(NOW)} == {"running", "idle"}


def test_a_lost_host_is_told_until_it_is_swept() -> None:
    scene = three_hosts()
    assert scene.snapshot is not None
    far = scene.hosts()[-1]
    assert (far["state"], [one["state"] for one in scene.hosts()]) == (
        "lost",
        ["running", "running", "lost"],
    )
    assert "! a host is lost, its leases not renewed for 27.0s: worker-7f9c4d" in drawn(
        scene, 100, 40
    )
    left = [one for one in scene.snapshot.status["workers"] if one["host"] != far["host"]]
    scene.snapshot.status.update({"workers": left, "hosts": by_host(left)})
    assert "lost" not in drawn(scene, 200, 40)


def test_no_host_is_lost_because_nobody_answers() -> None:
    """Leases are counted down while the database is away, and renewals cannot be seen."""
    scene = three_hosts()
    scene.trouble = "gone"
    later = NOW + 100
    assert [one["state"] for one in scene.hosts()] == ["running", "running", "lost"]
    shown = render(scene, 100, 40, later, CLOCK).plain
    assert shown.count("a host is lost") == 1


def test_one_host_is_not_grouped() -> None:
    assert "HOST" not in drawn(night_shift(), 200, 40)


def test_everything_about_a_host() -> None:
    scene = three_hosts()
    rows = scene.rows(NOW)
    about = Circumstances(NOW, rows, running=0, stopping=False, owns_fleet=False)
    state, deed = press(State(cursor=("host", "beta")), "enter", about)
    assert deed is None
    assert state.details is not None
    assert state.details["title"] == "host beta"
    assert ("workers", 2) in state.details["lines"]
    assert ("silent", "5.0s") in state.details["lines"]
    assert ("rss", "64M") in state.details["lines"]
    assert press(State(cursor=("host", "beta")), "K", about)[0].question is None


def test_room_is_shared() -> None:
    assert share(10, [2, 20, 20]) == [2, 4, 4]
    assert share(0, [1, 1]) == [0, 0]
    assert share(9, [1, 2]) == [1, 2]
    assert divide(20, [8, 30, 3]) == [8, 9, 3]
    assert divide(20, [50, 1]) == [19, 1]
    assert divide(5, []) == []


def test_the_picture_asks_nobody_for_anything() -> None:
    made = svg(night_shift(), NOW, CLOCK)
    assert "import_feed" in made
    outside = set(re.findall(r"https?://[^\s\"')]+", made)) - {"http://www.w3.org/2000/svg"}
    assert not {one for one in outside if "textualize.io" not in one}, outside
    assert 'url("http' not in made
