"""`coevolve docs`."""

import sys
from pathlib import Path

import click

from coevolve.cli.lazy_group import nearest_hint

FOLDER = Path(__file__).parents[1] / "docs"


def pages() -> dict[str, Path]:
    """Return the pages by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.md"))}


@click.command(name="docs")
@click.argument("page", required=False)
@click.option("--raw", is_flag=True, help="Print the Markdown as it is.")
def command(page: str | None, *, raw: bool) -> None:
    """Read a page about coevolve; without a name, list the pages."""
    known = pages()
    if page is None:
        _list(known)
        return
    if page not in known:
        raise click.UsageError(f"there is no page {page!r}{nearest_hint(page, list(known))}")
    text = known[page].read_text("utf-8")
    if raw or not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


def _list(known: dict[str, Path]) -> None:
    width = max(map(len, known))
    for name, path in known.items():
        title = path.read_text("utf-8").splitlines()[0].removeprefix("# ")
        sys.stdout.write(f"{name:<{width}}  {title}\n")
    sys.stdout.write("\nRead one with: coevolve docs PAGE\n")
