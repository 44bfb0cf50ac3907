"""Opens the trainer that a run's config requires, for one device or for several."""

from pathlib import Path

from coevolve.learning.sharded.rpc import RankStarter
from coevolve.learning.sharded.trainer import ShardedTrainer
from coevolve.learning.trainer import Trainer
from protocols.config import RunConfig
from protocols.interfaces import Files

AnyTrainer = Trainer | ShardedTrainer

_OPEN: list[ShardedTrainer] = []
"""The open trainer, at most one, because torch.distributed has one group per process."""


def open_trainer(
    config: RunConfig,
    base: Path,
    files: Files,
    *,
    weights: Path | None = None,
    checkpoint: Path | None = None,
    starter: RankStarter | None = None,
) -> AnyTrainer:
    """Load version 0 from ``weights`` or ``base``, or continue from ``checkpoint``.

    With several devices, ``starter`` starts the processes of the others; by default they are
    processes of this machine. Closes an earlier trainer of several devices. Raises RankError if a
    device's process cannot start, and what `Trainer` raises.
    """
    close_trainers()
    if config.learner.devices == 1:
        return Trainer(config, base, weights=weights, checkpoint=checkpoint)
    trainer = ShardedTrainer(
        config, base, files, weights=weights, checkpoint=checkpoint, starter=starter
    )
    _OPEN.append(trainer)
    return trainer


def close_trainers() -> None:
    """Stop the processes of the open trainer, if it has any."""
    while _OPEN:
        _OPEN.pop().close()
