"""Writes what a run made into a new folder: `python -m coevolve.export RUN WHAT --to DIR`.

RUN is a run's folder, or its name under `runs/`; it may go on meanwhile, and nothing of it is
changed. DIR is there whole in the end, or not at all.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coevolve.export.exporting import DATA, WEIGHTS, export_data, export_weights
from coevolve.run import directory as run_directory
from protocols.errors import CoevolveError


def main(argv: Sequence[str]) -> int:
    """Export and say what is there now; return the exit status."""
    arguments = _parse(argv)
    target: Path = arguments.to.absolute()
    try:
        directory = run_directory.find(arguments.run, arguments.runs)
        if arguments.what in WEIGHTS:
            done = export_weights(directory, arguments.what, arguments.version, target)
        else:
            options = {name: getattr(arguments, name) for name in DATA[arguments.what].options}
            done = export_data(directory, arguments.what, target, options)
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return 1
    sys.stdout.write(f"{target}: {done}\n")
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.export", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("run", help="a run's folder or name")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, text in {**WEIGHTS, **{kind: data.about for kind, data in DATA.items()}}.items():
        kind = kinds.add_parser(name, help=text, description=text, allow_abbrev=False)
        kind.add_argument("--to", type=Path, required=True, metavar="DIR", help="new folder")
        for option, choices in DATA[name].options.items() if name in DATA else ():
            kind.add_argument(
                f"--{option}",
                choices=choices,
                default=choices[0],
                help=f"see the table's README.md (default: {choices[0]})",
            )
        if name in WEIGHTS:
            kind.add_argument(
                "--version",
                type=_version,
                default="newest",
                metavar="N|newest|best",
                help="policy version; best: by the guard's canary tasks (default: newest)",
            )
    return parser.parse_args(argv)


def _version(text: str) -> str:
    if text not in ("newest", "best") and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a number, newest or best, found {text!r}")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
