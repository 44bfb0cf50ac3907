"""`coevolve docs`."""

import sys
from pathlib import Path

import click

from coevolve.base.shipped import configs
from coevolve.cli.lazy_group import nearest_hint

FOLDER = Path(__file__).parents[1] / "docs"


def pages() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.md"))}


def files() -> dict[str, Path]:
    """Return the files that pages explain, by name; none of them is a run file."""
    folders = (configs() / name for name in ("cluster", "monitoring"))
    return {path.name: path for folder in folders for path in sorted(folder.iterdir())}


@click.command(name="docs")
@click.argument("page", required=False, metavar="[PAGE | FILE]")
@click.option("--raw", is_flag=True, help="Print the Markdown as it is.")
def command(page: str | None, *, raw: bool) -> None:
    """Read a page about coevolve, or print a file that a page explains; without a name, list them.

    For example, `coevolve docs slurm.sh > slurm.sh`.
    """
    if page is None:
        _list()
        return
    known = pages() | files()
    if page not in known:
        hint = nearest_hint(page, list(known), "pages and files")
        raise click.UsageError(f"there is no page {page!r}{hint}")
    text = known[page].read_text("utf-8")
    if raw or page in files() or not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.markdown import Markdown

    from coevolve.base.terminal import Terminal

    console = Terminal()
    with console.pager(styles=True):
        console.print(Markdown(text))


def _list() -> None:
    width = max(map(len, pages()))
    for name, path in pages().items():
        title = path.read_text("utf-8").splitlines()[0].removeprefix("# ")
        sys.stdout.write(f"{name:<{width}}  {title}\n")
    sys.stdout.write("\nRead one with: coevolve docs PAGE\n")
    sys.stdout.write(f"Files that pages explain: {', '.join(files())}\n")
