"""Launches a run: checks it, creates its folder, starts cluster and parts, writes the report."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
from rich.console import Console

from coevolve.base.foreign import resolved
from coevolve.base.import_guard import refuse_run_folder
from coevolve.base.user_code import resume_command
from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.initial_model import make_model
from coevolve.environments.registry import environment_of
from coevolve.estimate.estimate import estimate
from coevolve.estimate.estimate_lines import estimate_lines, replaced_model_line
from coevolve.estimate.memory import excesses, expected
from coevolve.estimate.step_time import Throughput, read_throughput
from coevolve.followers.supervision import Followers, followers
from coevolve.history.costs import costs_snapshots
from coevolve.history.directory import RunDirectory
from coevolve.journal.reader import run_reader
from coevolve.launcher import working_folder
from coevolve.launcher.address import VARIABLE, with_address
from coevolve.launcher.cluster import Joined, cluster
from coevolve.launcher.compose import clean_up, compose
from coevolve.launcher.fitting import demands, gpus_line
from coevolve.launcher.preflight import (
    comment_lines,
    missing,
    refuse_missing,
    rehearse,
    slow_modules,
)
from coevolve.learning.guard import guard_snapshots
from coevolve.models.model_folder import model_config
from coevolve.models.tiny_random.resolve import running
from coevolve.models.tiny_random.sizes import VOCABULARY, tiny_config
from coevolve.parts.attempts import reason_of
from coevolve.parts.privacy import FOLDER_MODE, private_files
from coevolve.report.writing import report
from coevolve.runs import sessions, starting
from coevolve.runs.copies.copier import discard_staged
from coevolve.runs.copies.copy_folder import claim
from coevolve.runs.drive import Companion, Run
from coevolve.runs.scaling import recorded_scale
from coevolve.runs.stop import Stop
from coevolve.screen.display import Display
from coevolve.screen.ending import Ending, print_ending
from coevolve.yaml.text import write_yaml
from protocols.config import RunConfig
from protocols.errors import CoevolveError, LostError
from protocols.interfaces import Reader
from protocols.learning import PolicyRegressed

STARTED = time.monotonic()

log = structlog.get_logger()

LET_GO_S = 5.0
"""Seconds that a run may take to end its tasks."""

Result = TypeVar("Result")

OnStart = Callable[[Stop], None]
"""Called in the run's event loop with the request that stops the run cleanly."""


OnLoss = Callable[[str], None]
"""Called in another thread, with a sentence, when the cluster is lost."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a launched run ended."""

    directory: RunDirectory
    run: Run
    failure: CoevolveError | None
    """The error that ended the run after its first step; None if there was none."""

    reported: bool = True
    """Whether the report was written: not if that failed, nor if the run lost its cluster."""


def dry_run(config: RunConfig, measured: Path | None = None) -> str:
    """Return the resolved settings as YAML, with the estimated cost and missing things as comments.

    ``measured`` is a file of `coevolve.estimate.step_time.read_throughput`. Raises ConfigError if
    something that the run file names does not exist or does not fit.
    """
    joining = with_address(config)
    throughput = read_throughput(measured) if measured else None
    told = [
        *_foreseen(config, throughput),
        gpus_line(demands(running(config, Path(config.name)))),
        *_joined(config, joining),
    ]
    lines = "".join(f"# {line}\n" for line in told)
    lacks = missing(joining)
    if not lacks:
        rehearse(joining)
    return write_yaml(config) + lines + comment_lines(lacks)


def _joined(config: RunConfig, joining: RunConfig) -> list[str]:
    """Return lines about a cluster that the run file does not name, and what its nodes lack."""
    address = joining.cluster.address
    said = f"cluster: joins the one at {address}, which {VARIABLE} names"
    inherited = [said] if address and address != config.cluster.address else []
    return [*inherited, *filter(None, [working_folder.warning(joining)])]


def _foreseen(config: RunConfig, throughput: Throughput | None) -> list[str]:
    """Return the estimate for the model that the run trains, and for one that it replaces."""
    environment = environment_of(config)
    imitates_others, own = environment.imitates_others, environment.own_models
    named = estimate(config, imitates_others=imitates_others, own=own, throughput=throughput)
    if not config.policy.tiny_random:
        return estimate_lines(named, config)
    parts = running(config, Path(config.name))
    sizes = tiny_config(
        model_config(config.policy),
        vocabulary=VOCABULARY,
        length=config.rollout.max_tokens,
        end=0,
        pad=0,
    )
    tiny = estimate(parts, imitates_others=imitates_others, own={parts.policy.model: sizes})
    return [*estimate_lines(tiny, config), replaced_model_line(named, config)]


def settings(
    run_file: str | Path, overrides: Sequence[str], runs: Path, *, resume: bool
) -> RunConfig:
    """Read a run file with overrides.

    With ``resume``, the run under ``runs`` keeps the number of rollout actors that it was last
    scaled to, whatever the file says, unless an override changes it. Raises CoevolveError.
    """
    refuse_run_folder()
    config = load_config(run_file, overrides)
    if not resume:
        return config
    return load_config(run_file, (*recorded_scale(runs / config.name), *overrides))


def check(config: RunConfig, runs: Path, *, resume: bool) -> None:
    """Install the environment's packages, and check everything else that a run needs.

    A new run needs a new folder under ``runs``, and its endpoints have to answer; a resumed one
    waits for them. Raises CoevolveError.
    """
    if not resume:
        starting.refuse_existing(resolved(runs / config.name))
    preflight.install(config)
    refuse_missing(config)
    if not resume:
        preflight.refuse_full_disk(config, resolved(runs / config.name))
        preflight.refuse_useless_models(config)


def open_directory(config: RunConfig, runs: Path, *, resume: bool) -> RunDirectory:
    """Create a new run's folder, or open an earlier run's with ``resume``. Raises RunError.

    If the earlier run's launcher was killed, this ends what is left of its local Ray cluster.
    """
    path = resolved(runs / config.name)
    if resume and not config.cluster.address:
        sessions.end_last(path / starting.LOCK_FILE)
    with private_files():
        return (starting.reopen if resume else starting.create)(path, config)


async def launch(
    config: RunConfig,
    directory: RunDirectory,
    display: Display,
    on_start: OnStart,
    on_loss: OnLoss = lambda sentence: None,
) -> Ended:
    """Start the run in ``directory``; return when it has ended or was stopped.

    Raises CoevolveError if the run fails before its first step.
    """
    keys = preflight.keys(config)
    with private_files(), starting.launch_lock(directory):
        directory.path.chmod(FOLDER_MODE)
        async with followers(config, directory.path, keys) as following:
            try:
                discard_staged(directory.path)
                if config.store.copies:
                    run_id = directory.identity().run_id
                    await asyncio.to_thread(claim, config.store.copies, config.name, run_id)
                display.begin("find or make the model")
                make_model(config, directory.path)
                preflight.check_made(config, directory.path)
                ended = await _driven(
                    config, directory, display, keys, on_start, on_loss, *_beside(config, following)
                )
            finally:
                display.close()
            if isinstance(ended.failure, LostError):  # a resumption writes it, and is waited for
                return replace(ended, reported=False)
            return replace(ended, reported=await _report(directory, config))


def _beside(config: RunConfig, following: Followers) -> Iterator[Companion]:
    """Yield what looks at the run; libraries that it does not need are not imported."""
    yield Companion("trackers", lambda run: following.run(run.store))
    if config.prometheus.port:
        from coevolve.followers.prometheus import serve

        yield Companion("prometheus", partial(serve, config, following.say))


async def _driven(
    config: RunConfig,
    directory: RunDirectory,
    display: Display,
    keys: Mapping[str, str],
    on_start: OnStart,
    on_loss: OnLoss,
    *beside: Companion,
) -> Ended:
    """Start a cluster and the run's parts in it; return when the run has ended.

    A failure ends the cluster's block, too: what is left of a lost one is not asked to end.
    """
    run: Run | None = None
    failure: CoevolveError | None = None
    joining, resume = with_address(config), resume_command(config.name, config)
    parts = running(joining, directory.path)
    display.begin("join the Ray cluster" if joining.cluster.address else "start Ray")
    try:
        with cluster(joining, directory, keys, slow_modules(parts)) as joined:
            stop = Stop()
            on_start(stop)  # after Ray, which installs signal handlers of its own
            display.begin("start the run's processes")
            composing = compose(parts, directory, display, STARTED, keys, joined.withheld)
            run = await _unless_lost(composing, joined, resume, on_loss)
            identity = msgspec.structs.replace(
                directory.identity(), address=joined.address, pid=os.getpid()
            )
            directory.record_launch(config, identity)
            await _unless_lost(run.drive(stop, *beside), joined, resume, on_loss)
            await asyncio.to_thread(clean_up, joining, directory)
    except CoevolveError as error:
        if run is None or not run.progress.step:
            raise
        failure = error
    return Ended(directory=directory, run=run, failure=failure)


async def _report(directory: RunDirectory, config: RunConfig) -> bool:
    """Write the report; return whether it is written. The run has ended in any case."""
    remedy = f"coevolve report {directory.path.name}"
    try:
        await report(directory, directory.report, environment_of(config))
    except CoevolveError as error:
        log.error("report_failed", reason=reason_of(error), repeat_with=remedy)  # noqa: TRY400
        return False
    except Exception as error:
        log.exception("report_failed", reason=reason_of(error), repeat_with=remedy)
        return False
    return True


async def _unless_lost(
    work: Coroutine[Any, Any, Result], joined: Joined, resume: str, also: OnLoss
) -> Result:
    """Return the result of ``work``; if the cluster is lost, call ``also`` and raise LostError."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[str] = loop.create_future()

    def on_loss(reason: str) -> None:
        first = "" if joined.processes else "start Ray again, and "
        said = (
            f"{reason}; the journal has everything that was completed: {first}"
            f"continue with: {resume}"
        )
        also(said)
        loop.call_soon_threadsafe(lost.set_result, said)

    working = asyncio.create_task(work)
    try:
        with joined.watched(on_loss):
            await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and working.exception() is not None:
                # The loss of the cluster may be the cause of the failure.
                await asyncio.wait((lost,), timeout=joined.notice_s)
    finally:
        working.cancel()
        await asyncio.wait((working,), timeout=LET_GO_S)
    if lost.done():
        raise LostError(lost.result())
    return await working


async def summarize(ended: Ended, config: RunConfig, console: Console) -> None:
    """Print how the run went."""
    run, directory = ended.run, ended.directory
    reader = run_reader(directory.path)
    costs, _ = await costs_snapshots(reader).folded()
    others = environment_of(config).imitates_others
    foreseen = expected(config, directory.path, imitates_others=others)
    ending = Ending(
        config=config,
        progress=run.progress,
        costs=costs,
        run=_shown(directory.path),
        report=_shown(directory.report) if ended.reported else None,
        stopped=not run.finished and ended.failure is None,
        remarks=excesses(foreseen, run.statuses_at_end),
        lost=await _lost(reader, config) if run.finished else None,
    )
    print_ending(console, ending)


async def _lost(reader: Reader, config: RunConfig) -> PolicyRegressed | None:
    """Return the regression that the guard finds at the end of a finished run, or None."""
    guard, _ = await guard_snapshots(reader, config.learner).folded()
    return guard.loss()


def _shown(path: Path) -> Path:
    """Return the path as a user would type it in the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
