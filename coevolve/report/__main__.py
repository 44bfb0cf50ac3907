"""Write the report of a run, finished or not: `python -m coevolve.report [RUN] [--out FILE]`.

RUN is the folder of a run, or its name under `runs/`; the default is the newest run. The command
writes `report.html` beside the run's journal and prints its path.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.registry import environment_of
from coevolve.report.writing import report
from coevolve.run import directory as run_directory
from protocols.errors import CoevolveError


def main(argv: Sequence[str]) -> int:
    """Write the report, print its path and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.report", description=__doc__)
    parser.add_argument("run", nargs="?", help="a run's folder or name; default: the newest")
    parser.add_argument(
        "--out", type=Path, help="file to write; default: report.html in the run's folder"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    arguments = parser.parse_args(argv)
    try:
        directory = run_directory.find(arguments.run, arguments.runs)
        path = arguments.out or directory.report
        asyncio.run(report(directory, path, environment_of(directory.config())))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
