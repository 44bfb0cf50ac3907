"""The command line of attach."""

import argparse
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from protocols.evolution import SignalKind

COMMANDS = {
    "status": "show every live actor, the journal, how far the run is and how synthesis does",
    "signals": "show the weaknesses that were found and what became of them, newest first",
    "tasks": "show the tasks that were trained on or are there to be, newest first",
    "lineage": "show where a task comes from and what it led to",
    "tail": "print records of a topic, with --follow also those to come",
    "swap-synthesizer": "let another model synthesize, from the next signal on",
    "pause": "hand out no further work until resume; what is under way is finished",
    "resume": "end a pause",
    "checkpoint": "copy the journal while it is being written",
    "stop": "stop the run cleanly, with a checkpoint",
}

DESCRIPTION = (
    "Looks into a run from another terminal, and steers it. RUN is a run's folder, or its name "
    "under the folder of all runs; without it the newest run is taken."
)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse; what stands before the command, if anything, is the run."""
    root = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    root.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    root.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster, where the run's folder is on another machine",
    )
    known, rest = root.parse_known_args(argv)
    run = rest.pop(0) if rest and rest[0] not in COMMANDS and rest[0][0:1] != "-" else None
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.attach [RUN]",
        description=DESCRIPTION,
        parents=[root],
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add_argument("--json", action="store_true", help="for programs")
        _options(name, command)
    if run is not None and not rest:
        parser.error(f"{run!r} is no command, and no command follows it{_near(run)}")
    arguments = parser.parse_args(rest)
    arguments.run, arguments.runs, arguments.address = run, known.runs, known.address
    return arguments


def _near(word: str) -> str:
    near = difflib.get_close_matches(word, COMMANDS, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; commands: {', '.join(COMMANDS)}"


def _options(name: str, command: argparse.ArgumentParser) -> None:
    match name:
        case "signals":
            kinds = get_args(SignalKind)
            command.add_argument("--kind", choices=kinds, help="of this kind alone")
            _last(command, 20, "how many")
        case "tasks":
            command.add_argument("--origin", choices=("seed", "synthesized"), help="these alone")
            _last(command, 20, "how many")
        case "lineage":
            command.add_argument("task", help="its id, or how that begins")
        case "tail":
            command.add_argument("topic", help="for example step_report, signal, rollout")
            command.add_argument("-f", "--follow", action="store_true", help="wait for more")
            _last(command, 10, "how many of old")
        case "swap-synthesizer":
            _model_options(command)
        case "checkpoint":
            command.add_argument("--to", type=Path, help="new folder; default: in the run's own")
        case _:
            pass


def _last(command: argparse.ArgumentParser, default: int, text: str) -> None:
    command.add_argument(
        "-n", "--last", type=_count, default=default, help=f"{text} (default {default})"
    )


def _model_options(command: argparse.ArgumentParser) -> None:
    """Add one option for each setting of a model; `coevolve.attach.swap.model_of` reads them."""
    kind = command.add_mutually_exclusive_group(required=True)
    kind.add_argument("--policy", action="store_true", help="the policy itself synthesizes")
    kind.add_argument("--base-url", metavar="URL", help="of an OpenAI-compatible server")
    for option, text in {
        "--weights": "start or newest: which of the policy's weights",
        "--model": "the model's name at the server",
        "--key-variable": "environment variable with the key, in the synthesizer's process",
        "--temperature": "of sampling",
        "--max-answer-tokens": "of one answer",
        "--timeout-s": "seconds for one call",
        "--tries": "attempts at one call",
        "--usd-per-million-prompt-tokens": "price",
        "--usd-per-million-answer-tokens": "price",
    }.items():
        command.add_argument(option, metavar="X", help=text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a count of records, found {text!r}")
    return int(text)
