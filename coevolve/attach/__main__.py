"""Looks into a run from another terminal, and steers it: `python -m coevolve.attach [RUN] COMMAND`.

RUN is a run's folder, or its name under `runs/`; without it the newest run is taken. What only
looks also answers when nothing runs, from the journal; what steers then says so.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Sequence

from coevolve.attach import live, steering
from coevolve.attach.arguments import parse
from coevolve.attach.lineage import lineage
from coevolve.attach.status import status
from coevolve.attach.subject import Subject
from coevolve.attach.swap import model_of, swap_synthesizer
from coevolve.attach.tail import tail
from coevolve.attach.views import signals, tasks
from coevolve.run import directory as run_directory
from protocols.errors import CoevolveError

LOOKING = ("status", "signals", "tasks", "lineage", "tail")
FROM_THE_JOURNAL = ("signals", "tasks", "lineage")
"""Commands that have no use for actors."""


def main(words: Sequence[str]) -> None:
    """Parse the command line and carry out the command."""
    arguments = parse(words)
    try:
        asyncio.run(_carry_out(arguments))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)


async def _carry_out(arguments: argparse.Namespace) -> None:
    if arguments.command == "swap-synthesizer":
        arguments.settings = model_of(vars(arguments))  # refused before anything is joined
    async with _subject(arguments) as subject:
        if arguments.command in LOOKING:
            await _look(subject, arguments)
        else:
            await _steer(subject, arguments)


@contextlib.asynccontextmanager
async def _subject(arguments: argparse.Namespace) -> AsyncGenerator[Subject]:
    """Give the run that is meant, with its actors where the command has a use for them."""
    if arguments.address:
        async with live.opened_from_afar(arguments.address, arguments.run) as subject:
            yield subject
        return
    join = arguments.command not in FROM_THE_JOURNAL
    if arguments.command == "tail":
        join = arguments.follow
    with live.opened(run_directory.find(arguments.run, arguments.runs), join=join) as subject:
        yield subject


async def _look(subject: Subject, arguments: argparse.Namespace) -> None:
    as_json = arguments.json
    match arguments.command:
        case "status":
            await status(subject, as_json=as_json)
        case "signals":
            await signals(
                subject,
                kind=arguments.kind,
                count=arguments.last,
                now_s=time.time(),
                as_json=as_json,
            )
        case "tasks":
            await tasks(subject, origin=arguments.origin, count=arguments.last, as_json=as_json)
        case "lineage":
            await lineage(subject, arguments.task, as_json=as_json)
        case _:
            await tail(
                subject,
                arguments.topic,
                count=arguments.last,
                follow=arguments.follow,
                as_json=as_json,
            )


async def _steer(subject: Subject, arguments: argparse.Namespace) -> None:
    as_json = arguments.json
    match arguments.command:
        case "swap-synthesizer":
            await swap_synthesizer(subject, arguments.settings, as_json=as_json)
        case "pause":
            await steering.pause(subject, as_json=as_json)
        case "resume":
            await steering.resume(subject, as_json=as_json)
        case "checkpoint":
            await steering.checkpoint(subject, arguments.to, as_json=as_json)
        case _:
            await steering.stop(subject, as_json=as_json)


if __name__ == "__main__":
    main(sys.argv[1:])
