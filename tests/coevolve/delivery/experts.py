"""Delivery of a mixture of experts, and attacks on single experts, for tests of both engines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from coevolve.models.load import read_model
from protocols.config import Engine, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import DeliveryError
from protocols.interfaces import Generator
from tests.delivering import proven
from tests.learning import MemoryJournal
from tests.serving import moved, published

EXPERTS = "Qwen/Qwen3-30B-A3B-Instruct-2507"

Weights = dict[str, torch.Tensor]
Change = Callable[[Weights], Weights]

GATES = "model.layers.0.mlp.experts.gate_up_proj"
DOWNS = "model.layers.1.mlp.experts.down_proj"
ROUTER = "model.layers.0.mlp.gate.weight"


def _one_expert_stale(weights: Weights) -> Weights:
    weights[GATES] = weights[GATES].clone()
    weights[GATES][2] *= 1.01
    return weights


def _one_row_of_an_expert_zero(weights: Weights) -> Weights:
    weights[DOWNS] = weights[DOWNS].clone()
    weights[DOWNS][3, 5] = 0
    return weights


def _experts_exchanged(weights: Weights) -> Weights:
    weights[DOWNS] = weights[DOWNS][[1, 0, 2, 3]]
    return weights


def _routes_exchanged(weights: Weights) -> Weights:
    weights[ROUTER] = weights[ROUTER][[0, 1, 3, 2]]
    return weights


ATTACKS: Sequence[Change] = (
    _one_expert_stale,
    _one_row_of_an_expert_zero,
    _experts_exchanged,
    _routes_exchanged,
)


async def prove_and_alarm(
    folder: Path, settings: Engine, generator: Generator, sabotage: Callable[[Change], Any]
) -> None:
    """Prove the versions, then detect every attack; ``sabotage`` changes the loaded weights."""
    config = RunConfig(
        name="experts",
        policy=PolicyConfig(model=str(folder), train="full"),
        rollout=RolloutConfig(engine=settings),
    )
    engine = proven(generator, MemoryJournal(), folder.parent, config)
    versions = [
        published(folder.parent, number, moved(read_model(folder), seed=number))
        for number in range(1, 4)
    ]
    for version in versions:
        proof = await engine.serve(version)
        assert proof.rows > 6000
    for attack in ATTACKS:
        sabotage(attack)
        with pytest.raises(DeliveryError):
            await engine.serve(versions[0])
