"""A checkpoint's files: the trainer's state, and the shards of weights and momentum.

Every rank writes its own shards (`coevolve.learning.sharded.shards`); one process writes the same
files as the only rank. Any number of ranks continues from them.
"""

from pathlib import Path

import msgspec
import torch

from coevolve.learning.optimizers import Optimizers
from coevolve.learning.policy import Policy
from coevolve.learning.sharded.ranks import ALONE, Ranks
from coevolve.learning.sharded.shards import names_of, read_shards, write_shards

STATE_FILE = "trainer_state.json"


class TrainerState(msgspec.Struct, frozen=True, kw_only=True):
    """`trainer_state.json`: a checkpoint's data besides weights and optimizers."""

    step: int
    seed: int
    learning_rate: float
    """Learning rate of the last step."""

    rate_factor: float = 1.0
    """Factor on all learning rates after the guard's returns."""

    noise: tuple[float, float] = (0.0, 0.0)
    """Averages behind the gradient noise scale."""

    replay: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """(token ids, mask) of the references kept for replay, oldest first."""


def write_checkpoint_files(
    folder: Path, state: TrainerState, policy: Policy, optimizers: Optimizers, ranks: Ranks
) -> None:
    """Write a checkpoint into ``folder``; all ranks call this together. Raises OSError."""
    write_shards(_named(policy) | optimizers.moments(), folder, ranks)
    if ranks.writes:
        (folder / STATE_FILE).write_bytes(msgspec.json.encode(state))


def read_checkpoint_files(
    folder: Path, policy: Policy, optimizers: Optimizers, ranks: Ranks
) -> TrainerState:
    """Set weights and momentum from ``folder`` and return the rest. Raises CheckpointError."""
    optimizers.begin(names_of(folder))
    read_shards(_named(policy) | optimizers.moments(), folder, ranks)
    return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=TrainerState)


def read_checkpoint_weights(folder: Path, policy: Policy) -> None:
    """Set the weights of a policy of one process from ``folder``. Raises CheckpointError."""
    read_shards(_named(policy), folder, ALONE)


def _named(policy: Policy) -> dict[str, torch.Tensor]:
    return {f"policy.{name}": tensor for name, tensor in policy.tensors().items()}
