"""Takes a run's learner steps again.

Each recorded step is taken on its recorded batch, from version 0 or from a checkpoint, by as many
processes as took it, and the weights are compared with the recorded digest. If the number of
processes changed, the replay goes on from the checkpoint that the run then wrote. Nothing is
written.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from coevolve.base.terminal import Terminal
from coevolve.config.preflight import install
from coevolve.environments.registry import environment_of
from coevolve.history.directory import RunDirectory
from coevolve.journal.reader import run_reader
from coevolve.learning.history import History
from coevolve.learning.opening import close_trainers
from coevolve.learning.recovery import take_again, trainer_at
from coevolve.models.atomic_folder import verify
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.errors import CheckpointError, RunError
from protocols.learning import Checkpoint, StepReport


@dataclass(frozen=True, kw_only=True)
class ReplayedStep:
    """One step that was taken again."""

    step: int
    recorded: str
    """Digest of the weights in the journal."""

    reached: str
    """Digest of the weights now."""

    @property
    def equal(self) -> bool:
        """Whether the step led to the same weights, bit by bit."""
        return self.reached == self.recorded


async def replay(
    config: RunConfig, run_dir: Path, history: History, *, from_checkpoint: int | None = None
) -> AsyncIterator[ReplayedStep]:
    """Yield every recorded step from version 0, or beyond the checkpoint of a step.

    Raises:
        CheckpointError: There is no such checkpoint, or it is damaged.
        LearnerError: A step's rollouts are no longer in the journal.
    """
    begin = from_checkpoint or 0
    start = await _checkpoint(begin, run_dir, history) if from_checkpoint is not None else None
    files = LocalFiles(run_dir)
    try:
        for devices, steps in groupby(await history.steps(after=begin), _devices):
            taken = list(steps)
            if taken[0].step != begin + 1:
                start = await _checkpoint(taken[0].step - 1, run_dir, history)
            settings = _on(config, devices)
            trainer = await trainer_at(start, settings, files, history)
            for step in taken:
                reached = await take_again(trainer, step, settings, files, history)
                yield ReplayedStep(step=step.step, recorded=step.weights_digest, reached=reached)
    finally:
        close_trainers()


def _devices(report: StepReport) -> int:
    return report.devices


def _on(config: RunConfig, devices: int) -> RunConfig:
    """Return the settings of a run on ``devices``; on its own number of them for 0."""
    learner = replace(config.learner, devices=devices or config.learner.devices)
    return replace(config, learner=learner)


async def _checkpoint(step: int, run_dir: Path, history: History) -> Checkpoint:
    """Return an intact checkpoint of ``step``. Raises CheckpointError."""
    checkpoints = await history.checkpoints()
    if step not in checkpoints:
        known = ", ".join(str(each) for each in sorted(checkpoints)) or "none"
        raise CheckpointError(
            f"the journal has no checkpoint of step {step}, or the run removed it "
            f"(learner.keep_checkpoints); it has: {known}"
        )
    verify(run_dir, checkpoints[step])
    return checkpoints[step]


def compare(run_dir: Path, from_checkpoint: int | None) -> bool:
    """Replay, print one line a step, and return whether all reached their recorded weights.

    Raises what `replay` raises, and RunError if ``run_dir`` is no run.
    """
    return asyncio.run(_compare(run_dir, from_checkpoint, Terminal(highlight=False)))


async def _compare(run_dir: Path, from_checkpoint: int | None, console: Console) -> bool:
    config, history = records(run_dir)
    steps = 0
    differing: list[int] = []
    async for step in replay(config, run_dir, history, from_checkpoint=from_checkpoint):
        steps += 1
        if step.equal:
            console.print(f"step {step.step}: equal, {step.reached[:12]}")
        else:
            differing.append(step.step)
            console.print(
                f"step {step.step}: DIFFERS, {step.reached[:12]} and not {step.recorded[:12]}"
            )
    if not steps:
        raise RunError(f"{run_dir}: has no step to take again from there; train it first")
    console.print(f"{steps - len(differing)} of {steps} steps reached their recorded weights")
    return not differing


def records(run_dir: Path) -> tuple[RunConfig, History]:
    """Return the settings and the records of a run. Raises RunError if there is no such run."""
    config = RunDirectory(run_dir).config()
    install(config)
    reader = run_reader(run_dir)
    return config, History(reader, environment_of(config).supervision(reader))
