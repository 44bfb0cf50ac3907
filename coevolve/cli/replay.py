"""Takes a run's learner steps again: `python -m coevolve.replay [RUN] [--from-checkpoint N]`.

`--ablate SOURCE` trains the recorded batches without one source of gradient and says what it was
worth; with `--anew` it makes a run without the source for that (`coevolve.ablate`).

Each recorded step is taken on its recorded batch, from version 0 or from a checkpoint, and the
weights are compared with the recorded digest. Nothing is written. Exits 0 where every step reached
its recorded weights, 1 where one did not, or where the steps cannot be taken.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from coevolve.cli.ablate import WITHOUT, ablate, run_without
from coevolve.environments.registry import environment_of
from coevolve.journal.reader import run_reader
from coevolve.learning.batch import Source
from coevolve.learning.history import History
from coevolve.learning.recovery import take_again, trainer_at
from coevolve.models.atomic_folder import verify
from coevolve.report.writing import report
from coevolve.run import attribution
from coevolve.run import directory as run_directory
from coevolve.run.directory import RunDirectory
from protocols.config import RunConfig
from protocols.errors import CheckpointError, CoevolveError
from protocols.learning import Checkpoint


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
    checkpoint = None
    if from_checkpoint is not None:
        checkpoint = await _checkpoint(from_checkpoint, history)
        verify(run_dir, checkpoint)
    trainer = await trainer_at(checkpoint, config, run_dir, history)
    for step in await history.steps(after=trainer.step):
        reached = await take_again(trainer, step, config, run_dir, history)
        yield ReplayedStep(step=step.step, recorded=step.weights_digest, reached=reached)


async def _checkpoint(step: int, history: History) -> Checkpoint:
    checkpoints = {each.step: each for each in await history.checkpoints()}
    if step not in checkpoints:
        known = ", ".join(str(each) for each in sorted(checkpoints)) or "none"
        raise CheckpointError(f"the journal has no checkpoint of step {step}; it has: {known}")
    return checkpoints[step]


async def _report(run_dir: Path, from_checkpoint: int | None, console: Console) -> bool:
    """Print one line a step; return whether all are equal."""
    config, history = _opened(run_dir)
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
    console.print(f"{steps - len(differing)} of {steps} steps reached their recorded weights")
    return not differing


def _opened(run_dir: Path) -> tuple[RunConfig, History]:
    """Return the settings and the records of a run. Raises RunError where there is none."""
    config = RunDirectory(run_dir).config()
    reader = run_reader(run_dir)
    return config, History(reader, environment_of(config).supervision(reader))


async def _attribute(
    run_dir: Path, sources: Sequence[Source], console: Console, *, anew: bool
) -> None:
    """Print what each source was worth, keep it in the run's folder, and write its report."""
    config, history = _opened(run_dir)
    attribution.read(run_dir)  # one that is broken is said before hours of training
    named = list(dict.fromkeys(sources))
    found = await (run_without(run_dir, named) if anew else ablate(config, run_dir, history, named))
    attribution.write(run_dir, found)
    directory = RunDirectory(run_dir)
    await report(directory, directory.report, environment_of(config))
    for line in attribution.lines(found):
        console.print(line, soft_wrap=True)


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line, or ``words`` in its place, and replay."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.replay", description=__doc__)
    parser.add_argument("run", nargs="?", help="a run's folder or name; default: the newest")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    parser.add_argument(
        "--from-checkpoint", type=int, metavar="N", help="start at this step and not at version 0"
    )
    parser.add_argument(
        "--ablate",
        action="append",
        choices=WITHOUT,
        metavar="SOURCE",
        help=f"train without a source and score it: {', '.join(WITHOUT)}; may be given repeatedly",
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="with --ablate: by a run of its own rollouts",
    )
    arguments = parser.parse_args(words)
    if arguments.anew and not arguments.ablate:
        parser.error("--anew needs --ablate SOURCE")
    if arguments.ablate and arguments.from_checkpoint is not None:
        parser.error("--ablate trains from version 0; leave --from-checkpoint out")
    console = Console(highlight=False)
    try:
        run_dir = run_directory.find(arguments.run, arguments.runs).path
        if arguments.ablate:
            asyncio.run(_attribute(run_dir, arguments.ablate, console, anew=arguments.anew))
            return
        equal = asyncio.run(_report(run_dir, arguments.from_checkpoint, console))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)
    sys.exit(0 if equal else 1)
