"""Looks into a run from another terminal: `python -m coevolve.attach [RUN] COMMAND`.

RUN is a run's folder, or its name under `runs/`; without it the newest run is taken. `status` and
`tail` also answer when nothing runs, from the journal; the other commands then say so.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
import ray
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from rich.console import Console
from rich.table import Table

from actors.part import RemotePart
from actors.store import STORE_NAME, RemoteStore, running_store
from coevolve import assembly
from coevolve.journal.codec import TOPICS as KNOWN_TOPICS
from coevolve.journal.codec import decode
from coevolve.journal.mailbox import Mailbox
from coevolve.journal.paging import PAGE, whole_topic
from coevolve.run import directory as run_directory
from coevolve.run.directory import RunDirectory
from coevolve.run.display import success_table
from coevolve.run.progress import TOPICS, Progress
from coevolve.run.reach import listens
from protocols.control import PartStatus, StopRequested
from protocols.errors import CoevolveError, RunError
from protocols.interfaces import Store
from protocols.journal import JournalStatistics, Message, StoredRecord

TAIL_WAIT_S = 30.0
STOP_WAIT_S = 180.0
ANSWER_S = 30.0
WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""

BULKY = "tokens"
"""The field that `tail` shows as a count, because nobody reads it."""

COMMANDS = {
    "status": "show every live actor, the journal and how far the run is",
    "tail": "print records of a topic, with --follow also those to come",
    "checkpoint": "copy the journal while it is being written",
    "stop": "stop the run cleanly, with a checkpoint",
}


@dataclass(frozen=True)
class LiveRun:
    """The actors of a run that goes on."""

    store: Store
    parts: list[RemotePart]


def main() -> None:
    """Parse the command line and carry out the command."""
    arguments = _arguments(sys.argv[1:])
    try:
        directory = _directory(arguments.run, arguments.runs)
        match arguments.command:
            case "status":
                asyncio.run(status(directory, as_json=arguments.json))
            case "tail":
                asyncio.run(
                    tail(
                        directory,
                        arguments.topic,
                        count=arguments.last,
                        follow=arguments.follow,
                        as_json=arguments.json,
                    )
                )
            case "checkpoint":
                asyncio.run(checkpoint(directory, arguments.to, as_json=arguments.json))
            case _:
                asyncio.run(stop(directory, as_json=arguments.json))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)


async def status(directory: RunDirectory, *, as_json: bool) -> None:
    """Print who is alive and what each waits for, and the run's progress."""
    progress = await _progress(directory)
    statuses: list[PartStatus] = []
    statistics: JournalStatistics | None = None
    with contextlib.suppress(RunError), attached(directory) as live:
        statuses = list(await asyncio.gather(*(part.status() for part in live.parts)))
        statistics = await live.store.statistics()
    if as_json:
        _print_json(
            {
                "run": directory.path.name,
                "running": bool(statuses),
                "step": progress.step,
                "success": progress.evaluations,
                "discarded": progress.discarded,
                "failures": progress.failures,
                "parts": statuses,
                "journal": statistics,
            }
        )
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    running = "runs" if statuses else "does not run; what follows is from its journal"
    console.print(f"{directory.path.name}: {running}; step {progress.step}")
    if statuses:
        console.print(_parts_table(statuses, progress))
        for entry in statuses:
            if entry.last_error:
                console.print(f"{entry.part}, last error: {entry.last_error}")
    if statistics:
        console.print(_journal_table(statistics))
    if progress.evaluations:
        console.print(success_table(progress))


async def tail(
    directory: RunDirectory, topic: str, *, count: int, follow: bool, as_json: bool
) -> None:
    """Print the newest ``count`` records of ``topic``, and with ``follow`` all that come."""
    reader = assembly.reader(directory.path)
    if topic not in KNOWN_TOPICS:
        raise RunError(f"there is no topic {topic!r}; topics: {', '.join(KNOWN_TOPICS)}")
    newest = 0
    recent: deque[StoredRecord] = deque(maxlen=count)
    async for record in whole_topic(reader, topic):
        newest = record.sequence
        recent.append(record)
    for record in recent:
        _print_record(record.sequence, decode(record), as_json=as_json)
    if not follow:
        return
    with attached(directory) as live:
        while True:
            await live.store.wait((topic,), newest, TAIL_WAIT_S)
            for record in await reader.scan(topic, after=newest, limit=PAGE):
                newest = record.sequence
                _print_record(newest, decode(record), as_json=as_json)


async def checkpoint(directory: RunDirectory, to: Path | None, *, as_json: bool) -> None:
    """Copy the journal into ``to``, or into a new folder beside the learner's checkpoints."""
    name = time.strftime("journal-%Y%m%dT%H%M%SZ", time.gmtime())
    target = (to or directory.path / "checkpoints" / name).resolve()
    with attached(directory) as live:
        started = time.monotonic()
        await live.store.checkpoint(target)
        seconds = time.monotonic() - started
    size = sum(file.stat().st_blocks * 512 for file in target.iterdir())
    if as_json:
        _print_json({"path": str(target), "size_bytes": size, "wall_s": seconds})
    else:
        sys.stdout.write(f"{target}: {size / 1e6:.1f} MB in {seconds:.2f} s\n")


async def stop(directory: RunDirectory, *, as_json: bool) -> None:
    """Ask the run to stop and wait until it did."""
    identity = directory.identity()
    with attached(directory) as live:
        mailbox = Mailbox(
            live.store, consumer="attach", topics=(), member="attach", lease_s=ANSWER_S
        )
        await mailbox.append([StopRequested(run_id=identity.run_id)])
    deadline = time.monotonic() + STOP_WAIT_S
    while _alive(identity.pid):
        if time.monotonic() > deadline:
            raise RunError(f"{directory.path.name}: asked to stop, still running after a while")
        await asyncio.sleep(0.2)
    if as_json:
        _print_json({"run": directory.path.name, "stopped": True})
    else:
        sys.stdout.write(f"{directory.path.name}: stopped\n")


@contextlib.contextmanager
def attached(directory: RunDirectory) -> Generator[LiveRun]:
    """Connect to the run's actors. Raises RunError where nothing runs."""
    identity = directory.identity()
    nothing = RunError(
        f"{directory.path.name}: does not run; go on with "
        "python -m coevolve.launch RUN.yaml --resume"
    )
    if not listens(identity.address):
        raise nothing
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray protects the clusters that it starts with a token, and asks whoever joins to say so.
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        ray.init(
            address=identity.address,
            namespace=identity.namespace,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise nothing from error
    try:
        named = cast("list[dict[str, str]]", ray.util.list_named_actors(all_namespaces=True))
        names = [each["name"] for each in named if each["namespace"] == identity.namespace]
        if STORE_NAME not in names:
            raise nothing
        yield LiveRun(
            store=RemoteStore(running_store()),
            parts=[RemotePart(name, _actor(name)) for name in sorted(names)],
        )
    finally:
        ray.shutdown()


def _actor(name: str) -> Any:
    return cast("Any", ray).get_actor(name)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse; what stands before the command, if anything, is the run."""
    root = argparse.ArgumentParser(add_help=False)
    root.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    known, rest = root.parse_known_args(argv)
    run = rest.pop(0) if rest and rest[0] not in COMMANDS and rest[0][0:1] != "-" else None
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.attach [RUN]", description=__doc__, parents=[root]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="for programs")
        if name == "tail":
            command.add_argument("topic", help="for example step_report, evaluation, rollout")
            command.add_argument("-f", "--follow", action="store_true", help="wait for more")
            command.add_argument("-n", "--last", type=_count, default=10, help="how many of old")
        if name == "checkpoint":
            command.add_argument("--to", type=Path, help="new folder; default: in the run's own")
    arguments = parser.parse_args(rest)
    arguments.run, arguments.runs = run, known.runs
    return arguments


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a count of records, found {text!r}")
    return int(text)


def _directory(run: str | None, root: Path) -> RunDirectory:
    if run is None:
        return run_directory.newest(root)
    for path in (Path(run), root / run):
        if (path / "run.json").is_file():
            directory = RunDirectory(path.resolve())
            directory.identity()
            return directory
    raise RunError(f"{run}: is neither a run's folder nor the name of one under {root}")


async def _progress(directory: RunDirectory) -> Progress:
    reader = assembly.reader(directory.path)
    progress = Progress(assembly.labels(directory.config()))
    for topic in TOPICS:
        async for record in whole_topic(reader, topic):
            progress.fold(decode(record))
    return progress


def _parts_table(statuses: Sequence[PartStatus], progress: Progress) -> Table:
    table = Table(title="parts", title_justify="left")
    for column in ("part", "pid", "version", "mailbox", "done", "restarts", "waits for", "since"):
        table.add_column(column, no_wrap=True)
    for entry in statuses:
        restarts = sum(failure.part == entry.part for failure in progress.failures)
        table.add_row(
            entry.part,
            str(entry.pid),
            str(entry.policy_version) if entry.policy_version >= 0 else "",
            str(entry.mailbox),
            str(entry.done),
            str(restarts),
            entry.waits_for,
            f"{entry.since_s:.0f} s",
        )
    return table


def _journal_table(statistics: JournalStatistics) -> Table:
    table = Table(title="journal", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_row("newest sequence", str(statistics.last_sequence))
    table.add_row("size", f"{statistics.size_bytes / 1e6:.1f} MB")
    for topic, count in sorted(statistics.topics.items()):
        table.add_row(f"topic {topic}", str(count))
    for consumer in sorted(statistics.backlog):
        waiting, leased = statistics.backlog[consumer], statistics.leased.get(consumer, 0)
        table.add_row(f"consumer {consumer}: waiting / leased", f"{waiting} / {leased}")
    return table


def _print_record(sequence: int, message: Message, *, as_json: bool) -> None:
    tree = msgspec.to_builtins(message, builtin_types=(bytes,))
    if BULKY in tree:
        tree[BULKY] = len(tree[BULKY]["mask"])
    body = json.dumps({"sequence": sequence, **tree})
    if as_json:
        sys.stdout.write(body + "\n")
    else:
        kind = tree.pop("type")
        fields = "  ".join(f"{key}={value}" for key, value in tree.items())
        sys.stdout.write(f"{sequence:>7}  {kind}  {fields}\n")
    sys.stdout.flush()


def _print_json(tree: Any) -> None:
    sys.stdout.write(msgspec.json.encode(tree).decode() + "\n")


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main()
