"""Brings a trainer to where the journal says that the learner is, and proves that it is there.

Starting points are, newest first, the checkpoints that are whole, then version 0. From there the
recorded steps are taken again, on their recorded batches or back to the recorded version; each has
to reach the recorded weights, bit by bit.
"""

import asyncio
from pathlib import Path

import structlog

from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, open_trainer
from coevolve.learning.versions import is_whole, weights_digest
from coevolve.models.atomic_folder import newest_valid
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.errors import CheckpointError, LearnerError
from protocols.learning import Checkpoint, PolicyVersion, Returned, StepReport

log = structlog.get_logger()


async def recover(
    config: RunConfig, run_dir: Path, history: History
) -> tuple[AnyTrainer, Checkpoint | None]:
    """Return the trainer as it was after the last recorded step, and where it went on from.

    Raises:
        CheckpointError: No checkpoint is whole and version 0 is not what it was.
        LearnerError: A step cannot be taken again, or leads elsewhere.
    """
    checkpoint = newest_valid(run_dir, await history.checkpoints())
    trainer = await trainer_at(checkpoint, config, run_dir, history)
    for report in await history.steps(after=trainer.step):
        found = await take_again(trainer, report, config, run_dir, history)
        if found != report.weights_digest:
            raise LearnerError(
                f"step {report.step}, taken again from "
                f"{checkpoint.path if checkpoint else 'version 0'}, reached weights "
                f"{found[:12]} and not the recorded {report.weights_digest[:12]}; resume on the "
                "machine and with the torch and learner.threads that the run was started with"
            )
        log.info("step_taken_again", step=report.step)
    return trainer, checkpoint


async def trainer_at(
    checkpoint: Checkpoint | None, config: RunConfig, run_dir: Path, history: History
) -> AnyTrainer:
    """Return a trainer at ``checkpoint``, or at version 0."""
    base = model_folder(config.policy.model)
    if checkpoint is not None:
        return await asyncio.to_thread(
            open_trainer, config, base, checkpoint=run_dir / checkpoint.path
        )
    first = await history.first_version()
    if first is None:
        return await asyncio.to_thread(open_trainer, config, base)
    return await asyncio.to_thread(_at_version_0, first, config, base, run_dir)


async def take_again(
    trainer: AnyTrainer, report: StepReport, config: RunConfig, run_dir: Path, history: History
) -> str:
    """Take a recorded step again and return the digest of the weights that it reaches."""
    if report.returned is None:
        batch = await history.batch(report)
        await asyncio.to_thread(trainer.take_step, batch)
    else:
        await go_back(trainer, report.step, report.returned, run_dir, history)
    return await asyncio.to_thread(weights_digest, trainer, config)


async def go_back(
    trainer: AnyTrainer, step: int, returned: Returned, run_dir: Path, history: History
) -> dict[str, float]:
    """Take a step back to an earlier version and return its metrics.

    Raises CheckpointError where that version's weights are gone or were changed.
    """
    version = await history.version(returned.to_version)
    if not await asyncio.to_thread(is_whole, run_dir, version):
        raise CheckpointError(
            f"{run_dir / version.path}: step {step} goes back to version {version.version}, whose "
            "weights are missing or were changed; put that folder back"
        )
    folder = run_dir / version.path
    return await asyncio.to_thread(trainer.go_back, step, folder, returned.rate_factor)


def _at_version_0(first: PolicyVersion, config: RunConfig, base: Path, run_dir: Path) -> AnyTrainer:
    """Load version 0 from its own folder, or where that is damaged from the model's."""
    weights = run_dir / first.path
    if is_whole(run_dir, first):
        return open_trainer(config, base, weights=weights)
    log.warning("version_0_damaged", path=str(weights))
    trainer = open_trainer(config, base)
    found = weights_digest(trainer, config)
    if found != first.digest:
        raise CheckpointError(
            f"{weights}: version 0 is missing or was changed, and {base} holds another model now "
            f"(digest {found[:12]}, recorded {first.digest[:12]}); put either of them back"
        )
    return trainer
