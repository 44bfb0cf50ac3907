"""Opens the trainer that a run's config requires, for one device or for several."""

from pathlib import Path

from coevolve.learning.sharded.trainer import ShardedTrainer
from coevolve.learning.trainer import Trainer
from protocols.config import RunConfig

AnyTrainer = Trainer | ShardedTrainer

_OPEN: list[ShardedTrainer] = []
"""The open trainer, at most one, because torch.distributed has one group per process."""


def open_trainer(
    config: RunConfig, base: Path, *, weights: Path | None = None, checkpoint: Path | None = None
) -> AnyTrainer:
    """Load version 0 from ``weights`` or ``base``, or continue from ``checkpoint``.

    Closes an earlier trainer of several devices. Raises LearnerError if a device's process cannot
    start or load.
    """
    close_trainers()
    if config.learner.devices == 1:
        return Trainer(config, base, weights=weights, checkpoint=checkpoint)
    trainer = ShardedTrainer(config, base, weights=weights, checkpoint=checkpoint)
    _OPEN.append(trainer)
    return trainer


def close_trainers() -> None:
    """Stop the processes of the open trainer, if it has any."""
    while _OPEN:
        _OPEN.pop().close()
