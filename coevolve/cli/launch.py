"""Starts a run and stays with it: `python -m coevolve.launch RUN.yaml [key=value ...]`.

The composition root: the one place that knows which part lives in which process. Exits 0 when every
step was taken, 0 after a clean stop, 1 with one message where the run could not start or go on, and
130 when it was interrupted twice, or before it began.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

import msgspec
import ray
from rich.console import Console

from actors.curriculum import CurriculumActor
from actors.evaluator import EvaluatorActor
from actors.learner import LearnerActor
from actors.part import RemotePart
from actors.rollout import RolloutActor
from actors.signals import SignalsActor
from actors.simulator import RemoteSimulator, SimulatorActor
from actors.store import STORE_NAME, RemoteStore, StoreActor
from actors.synthesizer import SynthesizerActor
from actors.validator import ValidatorActor
from coevolve.build import parts as build
from coevolve.cli import preflight as requirements
from coevolve.config import load_config
from coevolve.engine.vllm.environment import environment
from coevolve.environments.cache_folder import CACHE_VARIABLE, passed_on
from coevolve.environments.registry import environment_of
from coevolve.journal.fold import fold
from coevolve.journal.reader import run_reader
from coevolve.learning.guard import TOPICS as GUARD_TOPICS
from coevolve.learning.guard import Guard
from coevolve.models.tiny_random.resolve import MODEL, running
from coevolve.parts import logs
from coevolve.report.writing import report
from coevolve.run import directory as run_directory
from coevolve.run.costs import TOPICS as COSTLY
from coevolve.run.costs import Costs
from coevolve.run.directory import RunDirectory
from coevolve.run.display import Display, open_display, print_summary
from coevolve.run.drive import Run
from coevolve.run.estimate import estimate
from coevolve.run.estimate_lines import estimate_lines
from coevolve.run.guard import guarded
from coevolve.run.reach import listens
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.errors import CoevolveError, RunError
from protocols.interfaces import Reader
from protocols.learning import PolicyRegressed

STARTED = time.monotonic()
INTERRUPTED = 130

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""One thread a process: the parts share the machine by being several."""

UNOBSERVED = {
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
}
"""Has a local cluster keep no statistics of its own, which nobody could look at without Ray's
dashboard (they make every call of an actor a sixth dearer), and look for new logs less often."""


def main(words: Sequence[str]) -> None:
    """Parse the command line, check everything that can be checked, and only then start Ray."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.launch", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("run_file", type=Path, help="a YAML file, see configs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="learner.steps=20 ...")
    parser.add_argument("--resume", action="store_true", help="go on with a run that exists")
    parser.add_argument("--dry-run", action="store_true", help="print config and estimate, stop")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    arguments = parser.parse_intermixed_args(words)
    console = Console()
    logs.to_output()
    # Until the run can stop cleanly there is nothing to save; the guard ends what Ray has started.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        config = load_config(arguments.run_file, arguments.overrides)
        requirements.check(config)
        _check_cluster(config.cluster.address)
        if arguments.dry_run:
            sys.stdout.write(_foreseen(config))
            return
        path = (arguments.runs / config.name).resolve()
        opened = run_directory.reopen if arguments.resume else run_directory.create
        directory = opened(path, config)
        _make_model(config, directory)
        asyncio.run(_interruptible(config, directory, console))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: an exception could be raised where nobody passes it on, and be lost."""
    del number, frame
    os.write(sys.stderr.fileno(), b"coevolve: interrupted before the run began\n")
    os._exit(INTERRUPTED)


def _check_cluster(address: str) -> None:
    """Refuse an address where nothing listens, before anything is written."""
    if re.fullmatch(r".+:\d+", address) and "://" not in address and not listens(address):
        raise RunError(
            f"cluster.address: needs a running Ray cluster, and nothing listens at {address!r}; "
            "start one with `ray start --head`, or leave it empty for a local one"
        )


def _foreseen(config: RunConfig) -> str:
    """Return the resolved config as YAML, with what the run will take in comments behind it."""
    environment = environment_of(config)
    foreseen = estimate(
        config, imitates_others=environment.imitates_others, own=environment.own_models
    )
    told = "".join(f"# {line}\n" for line in estimate_lines(foreseen, config))
    return msgspec.yaml.encode(config).decode() + told


def _make_model(config: RunConfig, directory: RunDirectory) -> None:
    """Make the model that the run starts from, where it is one of its own."""
    if config.policy.tiny_random:
        from coevolve.models.tiny_random.model import write_model

        write_model(config, directory.path / MODEL, environment_of(config).texts())
    else:
        environment_of(config).make_model(directory.path / MODEL)


async def _interruptible(config: RunConfig, directory: RunDirectory, console: Console) -> None:
    """Run; the first interrupt stops cleanly, the second at once."""
    stop = asyncio.Event()

    def interrupt() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    display = open_display(config, console)
    failure: CoevolveError | None = None
    try:
        with cluster(config, directory) as address:
            # After Ray, which installs handlers of its own.
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, interrupt)
            run = await compose(running(config, directory.path), directory, display)
            identity = msgspec.structs.replace(
                directory.identity(), address=address, pid=os.getpid()
            )
            directory.settle(config, identity)
            try:
                await run.drive(stop)
            except CoevolveError as error:
                if not run.progress.step:
                    raise
                failure = error
    finally:
        display.close()
    await _summarize(run, config, directory, console)
    if failure is not None:
        raise failure
    if not run.finished:
        console.print(f"stopped; go on with --resume and the same run file ({directory.path})")


async def _summarize(
    run: Run, config: RunConfig, directory: RunDirectory, console: Console
) -> None:
    """Print how the run went, and write its report."""
    reader = run_reader(directory.path)
    costs = Costs()
    await fold(reader, COSTLY, costs.fold)
    print_summary(
        console,
        config,
        run.progress,
        costs,
        run_dir=_shown(directory.path),
        lost=await _lost(reader, config) if run.finished else None,
        first_rollout_s=run.first_rollout_s,
        training_s=run.training_s,
        shares=run.shares,
    )
    await report(directory, directory.report, environment_of(config))
    console.print(f"report: {directory.report}")


async def _lost(reader: Reader, config: RunConfig) -> PolicyRegressed | None:
    """Return what the guard has against the last versions of a run that is over."""
    guard = Guard(config.learner)
    await fold(reader, GUARD_TOPICS, guard.fold)
    return guard.loss()


def _shown(path: Path) -> Path:
    """Return the path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@contextlib.contextmanager
def cluster(config: RunConfig, directory: RunDirectory) -> Generator[str]:
    """Join the configured Ray cluster, or start a local one that ends with this process.

    Yields its address.
    """
    address = config.cluster.address
    # Other machines have a home of their own, but look where the user says.
    named = passed_on() if CACHE_VARIABLE in os.environ else {}
    os.environ.update(WORKER_ENVIRONMENT)
    # At its usual level Ray's core warns that actors whose arguments hold handles cannot restart;
    # they do, and the tests kill them.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Workers that may not keep compiled files compile torch and transformers at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with contextlib.ExitStack() as stack:
        if not address:
            for name, value in UNOBSERVED.items():
                os.environ.setdefault(name, value)
            stack.enter_context(guarded())
        try:
            context = ray.init(
                address=address or "local",
                namespace=directory.identity().namespace,
                include_dashboard=False if not address else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": WORKER_ENVIRONMENT | named} if address else None,
            )
        except Exception as error:  # Ray raises bare ones where a node does not start in time
            place = f"the cluster at {address!r}" if address else "a local cluster"
            raise RunError(f"Ray cannot reach or start {place}: {error}") from error
        stack.callback(cast("Callable[[], None]", ray.shutdown))
        information = cast("Any", context).address_info
        yield information["gcs_address"]


async def compose(config: RunConfig, directory: RunDirectory, display: Display) -> Run:
    """Start every actor of the run and return what drives them."""
    run_dir = str(directory.path)
    store_actor = StoreActor.options(name=STORE_NAME).remote(directory.store, config.store)
    store = RemoteStore(store_actor)
    workers, simulators = _simulators(config, run_dir)
    await store.statistics()
    engine = _engine_options(config)
    # What loads a model takes longest to start, so it starts first.
    sampling = [
        RemotePart(
            name := f"rollout-{n}",
            RolloutActor.options(name=name, **engine).remote(name, config, run_dir, store, workers),
        )
        for n in range(config.rollout.actors)
    ]
    learner = RemotePart(
        "learner",
        LearnerActor.options(name="learner", num_gpus=_learner_gpus(config)).remote(
            "learner", config, run_dir, store
        ),
    )
    evaluator = RemotePart(
        "evaluator",
        EvaluatorActor.options(name="evaluator", **engine).remote(
            "evaluator", config, run_dir, store, workers
        ),
    )
    evolving, synthesizing = _evolving(config, run_dir, store, workers)
    curriculum = RemotePart(
        "curriculum",
        CurriculumActor.options(name="curriculum").remote("curriculum", config, run_dir, store),
    )
    return Run(
        config,
        directory,
        store=store,
        reader=run_reader(directory.path),
        parts=[curriculum, *evolving, *sampling, learner, evaluator],
        models=[*synthesizing, *sampling, learner, evaluator],
        simulators=simulators,
        store_part=RemotePart(STORE_NAME, store_actor),
        labels=build.labels(config),
        display=display,
        started=STARTED,
    )


def _learner_gpus(config: RunConfig) -> int:
    """Return what the learner's process needs to see, or Ray hides every GPU from it."""
    return config.learner.devices if config.policy.device == "cuda" else 0


def _engine_options(config: RunConfig) -> dict[str, Any]:
    """Return what a process with a sampling engine needs of Ray beyond the others."""
    match config.rollout.engine:
        case TransformersEngine():
            return {}
        case VllmEngine() as engine:
            return {
                "num_gpus": engine.gpus,
                "runtime_env": {"env_vars": environment(engine)},
            }


def _simulators(config: RunConfig, run_dir: str) -> tuple[list[RemoteSimulator], list[RemotePart]]:
    """Start the pool of simulators of the run's environment."""
    patience_s = environment_of(config).patience_s
    names = [f"simulator-{n}" for n in range(config.simulator.workers)]
    actors = [SimulatorActor.options(name=name).remote(name, config, run_dir) for name in names]
    parts = [RemotePart(name, actor) for name, actor in zip(names, actors, strict=True)]
    return [RemoteSimulator(actor, patience_s) for actor in actors], parts


def _evolving(
    config: RunConfig, run_dir: str, store: RemoteStore, workers: Sequence[RemoteSimulator]
) -> tuple[list[RemotePart], list[RemotePart]]:
    """Start what watches the policy, and what makes and judges tasks.

    Returns all of it, and what of it has a model.
    """
    signals = RemotePart(
        "signals",
        SignalsActor.options(name="signals").remote("signals", config, run_dir, store, workers),
    )
    if not config.synthesizes:
        return [signals], []
    kinds = {"synthesizer": SynthesizerActor, "validator": ValidatorActor}
    synthesizer, validator = (
        RemotePart(name, kind.options(name=name).remote(name, config, run_dir, store, workers))
        for name, kind in kinds.items()
    )
    return [signals, synthesizer, validator], [synthesizer]
