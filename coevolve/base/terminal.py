"""The console that draws tables and lines; it shows foreign text as it is, without obeying it."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from coevolve.base.visible import VisibleStream, visible


class Terminal(Console):
    """A Rich console that interprets no markup and no emoji codes, and makes texts `visible`.

    What Rich itself adds, such as colours, reaches the terminal.
    """

    def __init__(self, **options: Any) -> None:
        """Take Rich's options."""
        super().__init__(markup=False, emoji=False, **options)

    @property
    def file(self) -> IO[str]:
        """The stream that takes Rich's own escape sequences."""
        stream = super().file
        return stream.stream if isinstance(stream, VisibleStream) else stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text, made visible before its width counts."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is drawn, with every text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
