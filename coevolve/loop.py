"""The loop on one page: its parts, what each takes from the journal and gives to it, and a run.

- ``curriculum`` draws tasks from the pool, and requests rollouts of them, a group at a time.
- ``signals`` reads each finished group, and says where the policy is weak.
- ``synthesizer`` explores around a weakness, and makes candidates: tasks that may teach it.
- ``validator`` judges candidates, has the policy attempt them, and admits tasks to the pool.
- ``rollout`` lets the policy attempt tasks, those of an evaluation included. There may be several.
- ``learner`` trains the policy on groups of rollouts, and publishes versions of it.
- ``evaluator`` asks for the scores of a version on held-out tasks, and records them.

A part is a `protocols.interfaces.Part`. It knows no other part, and what it has to remember is in
the journal. `coevolve.launcher` gives each part of `LOOP` a process; here all are in one:

    python -m coevolve.loop quickstart learner.steps=4
"""

import argparse
import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from math import nan
from pathlib import Path

import msgspec
from rich.console import Console

from coevolve.config import load_config
from coevolve.dependencies import refuse
from coevolve.environments import open_parts
from coevolve.environments.initial_model import make_model
from coevolve.environments.open_parts import OpenPart, PartSpec
from coevolve.environments.packages import install
from coevolve.environments.registry import environment_of
from coevolve.journal.codec import encode
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts import logs
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from coevolve.parts.privacy import private_files
from coevolve.runs import starting
from coevolve.runs.display import score_tables
from coevolve.runs.progress import TOPICS, Progress
from protocols import control, evolution, learning, rollouts, tasks
from protocols.config import RunConfig
from protocols.control import RunStarted
from protocols.errors import CoevolveError
from protocols.journal import Append, Message, Receipt
from protocols.learning import Evaluation, StepReport

WIDTH = 80

Say = Callable[[object], None]

UNITS = (control.UnitsBegan, control.DeadLetter, control.LetterAnswered)
"""Given by each part that repeats what failed, and gives up what keeps failing."""

MODEL_CALLS = (evolution.ModelCall, evolution.CallFailed)
"""Given by each part that asks endpoints."""

LOOP = (
    PartSpec(
        name="curriculum",
        open=open_parts.curriculum,
        takes=(control.RunStarted, learning.StepReport, learning.GroupDiscarded),
        reads=(),
        gives=(tasks.Task, rollouts.RolloutRequest, control.StateSnapshot),
    ),
    PartSpec(
        name="signals",
        open=open_parts.signals,
        takes=(rollouts.Rollout, rollouts.FailedRollout, control.LetterRetried),
        reads=(),
        gives=(evolution.GroupSummary, evolution.Signal, *UNITS),
        is_optional=True,
    ),
    PartSpec(
        name="synthesizer",
        open=open_parts.synthesizer,
        takes=(evolution.Signal, evolution.SwapRequested, control.LetterRetried),
        reads=(),
        gives=(evolution.Exploration, evolution.Candidate, evolution.SignalSettled, *UNITS),
        exists=lambda config: config.synthesizes,
        has_model=True,
        is_optional=True,
    ),
    PartSpec(
        name="validator",
        open=open_parts.validator,
        takes=(evolution.Candidate, evolution.ProbeReport, learning.PolicyVersion),
        reads=(),
        gives=(evolution.CandidateVerdict, evolution.ProbeRequest, tasks.Task, *UNITS),
        exists=lambda config: config.synthesizes,
        is_optional=True,
    ),
    PartSpec(
        name="rollout",
        open=open_parts.rollout_worker,
        takes=(rollouts.RolloutRequest, evolution.ProbeRequest, learning.ScoreRequest),
        reads=(learning.PolicyVersion,),
        gives=(rollouts.Rollout, rollouts.FailedRollout, evolution.ProbeReport, *UNITS),
        conversations=lambda config: config.conversations,
        is_pooled=True,
    ),
    PartSpec(
        name="learner",
        open=open_parts.learner,
        takes=(rollouts.Rollout, rollouts.FailedRollout),
        reads=(),
        gives=(learning.StepReport, learning.PolicyVersion, learning.GroupDiscarded),
        has_model=True,
        is_sharded=True,
    ),
    PartSpec(
        name="evaluator",
        open=open_parts.evaluator,
        takes=(learning.PolicyVersion,),
        reads=(learning.ScoreReport,),
        gives=(learning.ScoreRequest, learning.Evaluation, learning.CanaryScores),
        conversations=lambda config: config.evaluator.conversations,
        is_optional=True,
    ),
)

PARTS = {spec.name: spec for spec in LOOP}


async def run_here(
    config: RunConfig, folder: Path, run_id: str = "here", say: Say = lambda _: None
) -> LocalStore:
    """Run the parts of `LOOP` as tasks of this event loop until the last version is scored.

    ``say`` gets what a user wants to see. An error of a part ends the run. Returns the journal,
    which stays open.
    """
    store = LocalStore(Journal.open(folder / "store"))
    started = RunStarted(run_id=run_id, config=msgspec.json.encode(config).decode())
    receipt = Receipt(producer=run_id, counter=1)
    await store.append(Append(records=(encode(started),), receipt=receipt))
    context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=store)
    async with AsyncExitStack() as opened, asyncio.TaskGroup() as working:
        simulators = [environment_of(config).simulator() for _ in range(config.simulator.workers)]
        for each in simulators:
            opened.push_async_callback(each.close)
        parts: list[OpenPart] = []
        for spec in LOOP:
            if spec.exists(config):
                parts.append(OpenPart(spec, context, simulators))
                opened.push_async_callback(parts[-1].close)
        for each in parts:
            working.create_task(each.part.run())
        await _follow(config, store, say)
        for each in parts:
            await each.part.stop()
    return store


async def _follow(config: RunConfig, store: LocalStore, say: Say) -> None:
    """Return when the last version is scored; say what each step and each score is."""
    progress, through, steps = Progress(environment_of(config).labels()), 0, config.learner.steps

    def take(message: Message) -> None:
        progress.fold(message)
        match message:
            case StepReport(step=step, metrics=metrics):
                reward = round(metrics.get("critic/rewards/mean", nan), 3)
                say(f"step {step} of {steps}: mean reward {reward}")
            case Evaluation(version=version):
                say(f"version {version}: mean score {progress.held_out()[version].mean:.1%}")
            case _:
                return

    while steps not in progress.evaluations:
        through = await fold(store, TOPICS, take, through)
        await store.wait(TOPICS, through, IDLE_WAIT_S)
    for table in score_tables(progress, WIDTH):
        say(table)


def main() -> None:
    """Carry out the run that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.loop", description=run_here.__doc__)
    parser.add_argument("run_file")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    words, console = parser.parse_args(), Console()
    try:
        config = load_config(words.run_file, words.overrides)
        environment = environment_of(config)
        install(environment.requires, environment.name, console.print)
        refuse(list(environment.check()))
        directory = starting.create(words.runs.absolute() / config.name, config)
        with private_files(), starting.launch_lock(directory):
            make_model(config, directory.path)
            logs.to_file(directory.path, parser.prog.split()[-1])
            run_id = directory.identity().run_id
            asyncio.run(run_here(directory.config(), directory.path, run_id, console.print))
    except* CoevolveError as errors:
        sys.exit(f"coevolve.loop: {errors.exceptions[0]}")
    console.print(f"The journal is in {directory.store}.", soft_wrap=True)


if __name__ == "__main__":
    main()
