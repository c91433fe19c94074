"""What is typed becomes keys, and what each key makes of the state."""

import dataclasses
import itertools

import pytest

from runner.console.keys import Keys
from runner.console.rates import Meter
from runner.console.state import VIEWS, Circumstances, Deed, State, press
from tests.scenes import NOW, night_shift

PAGES = ["pageup", "pagedown", "home", "end", "home", "end", "backtab"]


def about(
    state: State, running: int = 3, owns: bool = True, stopping: bool = False
) -> Circumstances:
    rows = night_shift(state).rows(NOW)
    return Circumstances(NOW, rows, running, stopping, owns, 25.0)


def typed(text: str | list[str], state: State | None = None) -> tuple[State, list[Deed]]:
    state = state or State()
    deeds = []
    for key in text:
        state, deed = press(state, key, about(state))
        deeds += [deed] if deed else []
    return state, deeds


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q?K+", ["q", "?", "K", "+"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (
            b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[Z",
            PAGES,
        ),
        (b"\t \n\r\x0c", ["tab", "space", "enter", "enter", "redraw"]),
        (b"\x1b[1;5A", ["up"]),
        (b"\x1bx", ["escape", "x"]),
        (b"\xc3\xa4\x00\xff\x01", []),
        (b"\x1b[200~y\x1b[201~", ["y"]),
    ],
)
def test_keys_in_whatever_pieces(data: bytes, keys: list[str]) -> None:
    assert Keys().feed(data) == keys
    for cut in range(1, len(data)):
        parser = Keys()
        assert parser.feed(data[:cut]) + parser.feed(data[cut:]) == keys, cut


def test_a_lone_escape_is_a_key_after_a_while() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.waiting
    assert keys.flush() == ["escape"]
    assert not keys.waiting
    assert keys.flush() == []
    assert keys.feed(b"\x1b[" + b"1" * 100) == ["escape", "["] + ["1"] * 100


def test_keys_never_raise() -> None:
    for three in itertools.product(b"\x1b[O1~AZ\x00\x9b", repeat=3):
        keys = Keys()
        keys.feed(bytes(three))
        keys.flush()


def test_views_and_moving() -> None:
    for number in VIEWS:
        assert typed(str(number))[0].view == number
    assert typed(["tab"] * 5)[0].view == 1
    assert typed(["backtab"])[0].view == 5
    assert typed(["down"])[0].cursor == ("worker", ("alpha", 4100))
    assert typed("jj")[0].cursor == ("worker", ("alpha", 4101))
    assert typed("jjk")[0].cursor == ("worker", ("alpha", 4100))
    assert typed("k")[0].cursor == typed(["end"])[0].cursor == ("dead", 639)
    assert typed(["end", "home"])[0].cursor == ("worker", ("alpha", 4100))
    assert typed(["down", "escape"])[0].cursor is None


def test_the_cursor_stays_on_its_thing_when_lines_move() -> None:
    state = typed("4jj")[0]
    assert state.cursor == ("dead", 640)
    scene = night_shift(state)
    assert scene.snapshot is not None
    scene.snapshot = dataclasses.replace(scene.snapshot, dead=scene.snapshot.dead[1:])
    state, _ = press(state, "j", Circumstances(NOW, scene.rows(NOW), 3, False, True))
    assert state.cursor == ("dead", 639)


@pytest.mark.parametrize(
    ("keys", "asked", "deed"),
    [
        ("4jr", "requeue task 812 (sync_crm)?", Deed("requeue", {"ids": [812]})),
        ("4jd", "discard task 812 (sync_crm) for good?", Deed("discard", {"ids": [812]})),
        ("3jp", "pause queue default?", Deed("pause", {"queue": "default"})),
        ("3jjp", "resume queue reports?", Deed("resume", {"queue": "reports"})),
        ("3jjjp", "pause type import_feed?", Deed("pause", {"type": "import_feed"})),
        ("3jr", "requeue 7 dead tasks of queue default?", Deed("requeue", {"queue": "default"})),
        ("2jjK", "kill task 77 (import_feed)", Deed("cancel", {"ids": [77]})),
        ("q", "stop? 3 tasks in hand, up to 25 s to end", Deed("stop", {})),
    ],
)
def test_deeds_are_asked_for_and_only_y_does_them(keys: str, asked: str, deed: Deed) -> None:
    state, deeds = typed(keys)
    assert state.question is not None
    assert state.question.text.startswith(asked)
    assert deeds == []
    assert press(state, "y", about(state)) == (dataclasses.replace(state, question=None), deed)
    for key in ("n", "enter", "space", "escape", "q", "r"):
        after, done = press(state, key, about(state))
        assert (after.question, done) == (None, None)
        assert after.note == "nothing was changed"


@pytest.mark.parametrize("keys", ["r", "d", "p", "K", "2jr", "4jK", "4jp", "2jjjjK"])
def test_what_cannot_be_done_is_told(keys: str) -> None:
    state, deeds = typed(keys)
    assert state.question is None
    assert state.note is not None
    assert "choose" in state.note
    assert deeds == []


def test_quitting() -> None:
    assert press(State(), "q", about(State(), running=0)) == (State(), Deed("stop", {}))
    assert press(State(), "q", about(State(), owns=False)) == (State(), Deed("leave", {}))
    state, _ = press(State(), "q", about(State(), stopping=True))
    assert state.question is not None
    assert state.question.text.startswith("stop at once")


def test_help_details_pause_and_pace() -> None:
    assert typed("?")[0].help
    assert not typed("?x")[0].help
    assert typed("?jj")[0].scroll == 2
    assert typed(["space"])[0].paused
    assert not typed(["space", "space"])[0].paused
    assert typed("+")[0].interval == 2.0
    assert typed("-")[0].interval == 0.5
    assert typed("-" * 20)[0].interval == 0.25
    assert typed("+" * 20)[0].interval == 30.0
    assert typed(["j", "enter"])[1] == [Deed("show", {"id": 801})]
    assert typed(["4", "j", "enter"])[1] == [Deed("show", {"id": 812})]
    state = typed(["3", "j", "enter"])[0]
    assert state.details is not None
    assert state.details["title"] == "queue default"
    assert typed(["3", "j", "enter", "escape"])[0].details is None
    said = dict(state.details["lines"])
    assert (said["oldest ready"], said["unserved"]) == ("1m14s", "no")
    assert "choose" in (typed(["enter"])[0].note or "")


def test_rates() -> None:
    meter = Meter()
    assert meter.per_second(0.0) is None
    meter.add(0.0, {"a": (100, 0), "b": (50, 0)})
    meter.add(1.0, {"a": (110, 1), "b": (60, 0)})
    assert meter.per_second(1.0) == (20.0, 1.0)
    meter.add(2.0, {"a": (120, 1), "c": (7, 0)})  # b is gone, and c was at work before it was seen
    assert meter.per_second(2.0) == (15.0, 0.5)
    meter.add(3.0, {"a": (0, 0), "c": (17, 0)})  # a starts anew
    assert meter.history(10) == [(20.0, 1.0), (10.0, 0.0), (10.0, 0.0)]
    meter.add(4.0, {"a": (0, 0), "c": (17, 0)}, in_steps=True)
    assert meter.total.at == 3.0
    meter.add(13.5, {"a": (0, 0), "c": (17, 0)}, in_steps=True)
    assert meter.per_second(13.5) == (0.0, 0.0)
