"""The picture of the live screen in the docs, drawn from a run that was recorded while it ran.

python -m tests.picture runs/quickstart          # records that running run, and draws it
python -m tests.picture                          # draws the recorded one again
"""

import asyncio
import io
import re
import sys
import time
from pathlib import Path

import msgspec

from coevolve.base.terminal import Terminal
from coevolve.cli.attach_views.live import opened
from coevolve.config.load import load_config
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress, progress_snapshots
from coevolve.screen.drawing import draw
from coevolve.screen.view import View
from protocols.control import PartStatus
from tests.commands import ROOT

RECORDED = ROOT / "tests/recorded/live_screen.json"
PICTURE = ROOT / "coevolve/docs/live_screen.svg"
SIZE = 80, 24
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What would load fonts from the network."""


class Recorded(msgspec.Struct):
    """What the screen shows of a run, at one moment."""

    elapsed_s: float
    steps: int
    progress: Progress
    parts: tuple[PartStatus, ...]


async def record(run: Path) -> Recorded:
    """Return a moment of a run that is running."""
    with opened(RunDirectory(run), join=True) as subject:
        labels = subject.environment.labels()
        progress, _ = await progress_snapshots(subject.reader, labels).folded()
        parts = await asyncio.gather(*(part.status() for part in subject.actors().parts))
        started = await subject.reader.last("run_started")
        assert started is not None
        return Recorded(
            elapsed_s=time.time() - started.time_ns / 1e9,
            steps=subject.config.learner.steps,
            progress=progress,
            parts=tuple(parts),
        )


def recorded_view() -> View:
    """Return the recorded moment."""
    recorded = msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)
    config = load_config("quickstart", [f"learner.steps={recorded.steps}"])
    return View(
        config=config,
        progress=recorded.progress,
        elapsed_s=recorded.elapsed_s,
        parts=recorded.parts,
    )


def svg(view: View) -> str:
    """Return the picture of a screen; it needs nothing from the network."""
    columns, rows = SIZE
    terminal = Terminal(
        width=columns,
        height=rows,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    terminal.print(draw(view, columns, rows))
    drawn = terminal.export_svg(title="coevolve launch quickstart", unique_id="screen")
    return FONTS.sub("", drawn)


def main() -> None:
    """Record the run that the command line names, if it names one, and draw the picture."""
    for run in sys.argv[1:]:
        RECORDED.parent.mkdir(exist_ok=True)
        found = asyncio.run(record(Path(run)))
        RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    PICTURE.write_text(svg(recorded_view()))


if __name__ == "__main__":
    main()
