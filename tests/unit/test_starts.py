"""Only starts that fail before HELLO back off; five in a row are hopeless."""

from runner.supervisor.starts import CAP_SECONDS, FIRST_SECONDS, Starts


def test_the_first_start_may_be_at_once() -> None:
    assert Starts().allowed_at("worker") == 0.0
    assert not Starts().hopeless


def test_waits_double_up_to_the_cap() -> None:
    starts = Starts()
    waits = []
    for _ in range(12):
        starts.failed("worker", 100.0)
        waits.append(round(starts.allowed_at("worker") - 100.0, 6))
    assert waits[:4] == [FIRST_SECONDS, 0.2, 0.4, 0.8]
    assert waits[-1] == CAP_SECONDS
    for _ in range(5000):
        starts.failed("worker", 100.0)
    assert starts.allowed_at("worker") == 100.0 + CAP_SECONDS


def test_five_in_a_row_are_hopeless() -> None:
    starts = Starts()
    for _ in range(4):
        starts.failed("worker", 0.0)
    assert not starts.hopeless
    starts.failed("worker", 0.0)
    assert starts.hopeless


def test_one_hello_anywhere_ends_the_row() -> None:
    starts = Starts()
    for _ in range(4):
        starts.failed("worker", 0.0)
    starts.succeeded("renewer")
    starts.failed("worker", 0.0)
    assert not starts.hopeless
    # … but the worker's own wait goes on growing.
    assert starts.allowed_at("worker") == FIRST_SECONDS * 16


def test_roles_wait_for_themselves_only() -> None:
    starts = Starts()
    starts.failed("worker", 50.0)
    assert starts.allowed_at("renewer") == 0.0
    starts.succeeded("worker")
    assert starts.allowed_at("worker") == 0.0


def test_no_room_to_fork_is_a_wait_and_never_hopeless() -> None:
    starts = Starts()
    for _ in range(50):
        starts.no_room("worker", 10.0)
        assert not starts.hopeless
    assert starts.allowed_at("worker") == 10.0 + CAP_SECONDS
