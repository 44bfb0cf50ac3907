"""What a terminal shows while a run starts: each phase, with the seconds that it took.

It imports nothing heavy, so that it can show while a command loads its libraries.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from coevolve.screen.lines import duration, fitted, line, spread

LIBRARIES = "load the libraries"
SETTINGS = "read the settings"
CHECKS = "check packages, models and devices"

REDRAWS_PER_S = 4
SPINNER = "|/-\\"
COLUMNS = 64
"""Maximum width of the list of phases."""


def redraws(console: Console) -> bool:
    """Return whether the console can redraw lines in place."""
    return console.is_terminal and not console.is_dumb_terminal


class StartScreen:
    """The phases of a start, redrawn in place by a thread until `close`.

    On a console that cannot redraw, it shows nothing.
    """

    def __init__(self, console: Console, title: str) -> None:
        """Show ``title`` at once, and as the first phase that libraries are loaded."""
        self.console = console
        self.started = time.monotonic()
        """When the start began, in seconds of `time.monotonic`."""

        self._title = title
        self._phases = [(LIBRARIES, self.started)]
        self._live = Live(
            console=console,
            get_renderable=self._frame,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
        )
        if redraws(console):
            self._live.start(refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def begin(self, phase: str) -> None:
        """Begin a phase; the one before has ended."""
        self._phases.append((phase, time.monotonic()))

    def close(self) -> None:
        """Remove it from the terminal; a second call does nothing."""
        self._live.stop()

    def _frame(self) -> Group:
        return draw_start(
            self._title,
            tuple(self._phases),
            started=self.started,
            now=time.monotonic(),
            size=(self.console.width, self.console.height),
            ascii_only=self.console.options.ascii_only,
        )


def draw_start(
    title: str,
    phases: tuple[tuple[str, float], ...],
    *,
    started: float,
    now: float,
    size: tuple[int, int],
    ascii_only: bool = False,
) -> Group:
    """Return the screen at the time ``now``; phases are (what is done, when it began)."""
    width, height = size
    head = line((title, "bold"), (f"  starts, {duration(now - started)}", ""))
    ends = [*(begun for _, begun in phases[1:]), now]
    rows: list[Text] = []
    for number, ((what, begun), end) in enumerate(zip(phases, ends, strict=True), 1):
        is_last = number == len(phases)
        mark = SPINNER[int(now * REDRAWS_PER_S) % len(SPINNER)] if is_last else "\u2713"
        left = line((f"  {mark} ", "bold" if is_last else "green"), (what, ""))
        rows.append(spread(left, line((f"{end - begun:.1f} s", "")), min(width, COLUMNS)))
    return fitted([head, *rows[-max(height - 2, 1) :]], width, ascii_only=ascii_only)
