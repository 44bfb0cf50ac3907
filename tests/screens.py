"""What a person sees of a drawn screen."""

from rich.console import RenderableType

from coevolve.terminal import Terminal


def plain(frame: RenderableType, size: tuple[int, int]) -> list[str]:
    """Return the lines of a frame on a terminal of (columns, rows), without colours."""
    width, height = size
    terminal = Terminal(width=width, height=height, color_system=None, highlight=False)
    with terminal.capture() as shown:
        terminal.print(frame)
    return shown.get().splitlines()
