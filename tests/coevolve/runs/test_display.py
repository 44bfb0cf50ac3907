"""What a run shows on a terminal and elsewhere."""

import io

from rich.console import Console

from coevolve.runs.display import STARTING, open_display
from coevolve.runs.progress import Progress
from protocols.config import RunConfig
from protocols.control import PartFailed


def test_a_terminal_says_that_parts_start_until_the_first_record(quickstart: RunConfig):
    shown = io.StringIO()
    display = open_display(quickstart, Console(file=shown, force_terminal=True, width=100))
    assert STARTING in shown.getvalue()
    shown.truncate(0)
    display.show(PartFailed(part="learner", reason="it was killed"), Progress({}))
    display.close()
    assert "learner restarted: it was killed" in shown.getvalue()
    assert STARTING not in shown.getvalue()
