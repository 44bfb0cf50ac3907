"""`coevolve board`."""

import sys
from pathlib import Path

import click

from coevolve.cli.options import FOLDER, code_option, port_option


@click.command(name="board")
@click.argument("runs", type=FOLDER, default=Path("runs"), metavar="[RUNS_FOLDER]")
@port_option(8765)
@code_option
def command(runs: Path, *, port: int) -> None:
    """Show the runs in a folder in a web browser, live, until Ctrl-C.

    RUNS_FOLDER is the folder of all runs; default: runs. The page is served on this machine alone,
    to those who have the printed address. Nothing is written, and a run is not slowed down. From
    another machine, forward the port: ssh -L 8765:127.0.0.1:8765 HOST
    """
    from coevolve.board.answers import Answers
    from coevolve.board.overview import RunsFolder
    from coevolve.board.server import Server

    with Server(Answers(RunsFolder(runs)), port) as server:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        server.serve_forever()
