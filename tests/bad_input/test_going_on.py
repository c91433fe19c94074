"""What is odd but no error: said, and the command goes on."""

from pathlib import Path

import pytest

from tests.bad_input.lines import EMPTY_APP
from tests.fleets import running, work
from tests.servers import wait_until

pytestmark = pytest.mark.process


def test_an_app_without_handlers_starts_and_tells_what_there_is_to_do(
    fresh: str, tmp_path: Path
) -> None:
    (tmp_path / "bare_app.py").write_text(EMPTY_APP)
    options = ("-A", "bare_app", "--app-dir", str(tmp_path))
    with work(fresh, tmp_path) as queue, running(fresh, tmp_path, *options, procs=1) as fleet:
        wait_until(lambda: "registers no handlers" in fleet.log(), 20, "the warning")
        queue.add("mail")
        wait_until(lambda: "task type not implemented: mail" in fleet.log(), 20, "what is to do")
        assert queue.row(1) is not None
        assert fleet.stop() == 0
        assert queue.states() == {"ready": 1}
