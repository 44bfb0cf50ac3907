"""Writes what a run made into a new folder: `python -m coevolve.export RUN WHAT --to DIR`.

RUN is a run's folder, or its name under `runs/`; it may go on meanwhile, and nothing of it is
changed. DIR is there whole in the end, or not at all.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coevolve.environments.registry import environment_of, environment_type, names
from coevolve.export.exporter import Exporter
from coevolve.export.exporting import WEIGHTS, export_data, export_weights
from coevolve.run import directory as run_directory
from protocols.errors import CoevolveError, ConfigError


def main(argv: Sequence[str]) -> int:
    """Export and say what is there now; return the exit status."""
    exporters = _exporters(argv)
    arguments = _parse(argv, exporters)
    target: Path = arguments.to.absolute()
    try:
        directory = run_directory.find(arguments.run, arguments.runs)
        environment = environment_of(directory.config())
        if arguments.what in WEIGHTS:
            done = export_weights(directory, environment, arguments.what, arguments.version, target)
        else:
            wanted = exporters[arguments.what].options
            options = {name: getattr(arguments, name) for name in wanted}
            done = export_data(directory, environment, arguments.what, target, options)
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return 1
    sys.stdout.write(f"{target}: {done}\n")
    return 0


def _exporters(argv: Sequence[str]) -> Mapping[str, Exporter]:
    """Return the tables of all environments with a name, and of the run's, which go first."""
    found: dict[str, Exporter] = {}
    for use in names():
        with contextlib.suppress(ConfigError):  # another's package that cannot be imported
            found.update(environment_type(use).exports)
    known, _ = _of_any_run(add_help=False).parse_known_args(argv)
    with contextlib.suppress(CoevolveError):  # said when the command is carried out
        config = run_directory.find(known.run, known.runs).config()
        found.update(environment_of(config).exports)
    return found


def _of_any_run(*, add_help: bool) -> argparse.ArgumentParser:
    """Return a parser of which run it is."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.export",
        description=__doc__,
        allow_abbrev=False,
        add_help=add_help,
    )
    parser.add_argument("run", nargs=None if add_help else "?", help="a run's folder or name")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    return parser


def _parse(argv: Sequence[str], exporters: Mapping[str, Exporter]) -> argparse.Namespace:
    parser = _of_any_run(add_help=True)
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, text in {**WEIGHTS, **{name: each.about for name, each in exporters.items()}}.items():
        kind = kinds.add_parser(name, help=text, description=text, allow_abbrev=False)
        kind.add_argument("--to", type=Path, required=True, metavar="DIR", help="new folder")
        for option, choices in exporters[name].options.items() if name in exporters else ():
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
