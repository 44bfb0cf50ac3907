"""Opens the trainer that a run's config asks for: of one device, or of several."""

from pathlib import Path

from coevolve.learning.sharded.trainer import ShardedTrainer
from coevolve.learning.trainer import Trainer
from protocols.config import RunConfig

AnyTrainer = Trainer | ShardedTrainer

_OPEN: list[ShardedTrainer] = []
"""What this process drives: one at most, because torch.distributed has one group per process."""


def open_trainer(
    config: RunConfig, base: Path, *, weights: Path | None = None, checkpoint: Path | None = None
) -> AnyTrainer:
    """Load version 0 from ``weights`` or ``base``, or go on from ``checkpoint``.

    A trainer of several devices that was opened before is closed. Raises LearnerError where a
    device's process cannot be started, or cannot load.
    """
    close_trainers()
    if config.learner.devices == 1:
        return Trainer(config, base, weights=weights, checkpoint=checkpoint)
    trainer = ShardedTrainer(config, base, weights=weights, checkpoint=checkpoint)
    _OPEN.append(trainer)
    return trainer


def close_trainers() -> None:
    """End the processes of the trainer that is open, if it has any."""
    while _OPEN:
        _OPEN.pop().close()
