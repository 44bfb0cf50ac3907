"""What attacks on the delivery of weights need from any engine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pytest
import torch

from coevolve.delivery.engine import VerifiedEngine
from coevolve.weights.models import Base
from coevolve.weights.published import read_published
from protocols.config import Engine, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import DeliveryError
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, WeightsFormat
from tests.coevolve.delivery.weight_attacks import WeightAttack
from tests.delivering import proven
from tests.learning import MemoryJournal
from tests.serving import published

Weights = dict[str, torch.Tensor]
Served = TypeVar("Served", bound=Generator)


class Sabotage(Protocol):
    """Makes an engine load other weights than it is given."""

    def __call__(self, change: Callable[[], Weights], monkeypatch: pytest.MonkeyPatch) -> None: ...


class Scene(Generic[Served]):
    """Versions on disk, and an engine that serves them."""

    generator: Served
    before: PolicyVersion
    right: PolicyVersion

    def __init__(self, folder: Path, engine: Engine, format: WeightsFormat) -> None:
        self.run_dir = folder
        self.base = folder / "model"
        self.format: WeightsFormat = format
        self.journal = MemoryJournal()
        self.config = RunConfig(
            name="attacked",
            policy=PolicyConfig(model=str(self.base), train=format),
            rollout=RolloutConfig(engine=engine),
        )

    def publish(self, number: int, model: Any) -> PolicyVersion:
        version = published(self.run_dir, number, model, self.format)
        self.journal.add(version)
        return version

    def engine(self) -> VerifiedEngine:
        """Return an engine that has proven nothing yet."""
        return proven(self.generator, self.journal, self.run_dir, self.config)

    def weights(self, version: PolicyVersion) -> Weights:
        """Return the whole weights in the files."""
        base = Base(self.base).for_format(self.format).parameters
        found = read_published(version, self.run_dir).weights(base)
        return {name: tensor.detach().float() for name, tensor in found.items()}


async def attack_and_alarm(
    scene: Scene[Any], attack: WeightAttack, sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make the engine end with other weights than the published ones; it must detect this."""
    precision = getattr(torch, scene.config.rollout.engine.dtype)
    before, right = scene.weights(scene.before), scene.weights(scene.right)
    ends_with = attack(before, right, torch.Generator().manual_seed(1))
    shows = _differ(ends_with, right, precision)
    assert shows or attack.__name__.endswith("_fp32")
    engine = scene.engine()
    await engine.serve(scene.before)
    with monkeypatch.context() as patch:
        sabotage(lambda: ends_with, patch)
        if shows:
            with pytest.raises(DeliveryError):
                await engine.serve(scene.right)
        else:
            await engine.serve(scene.right)
    assert (await scene.engine().serve(scene.right)).rows > 0


def _differ(
    found: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor], precision: torch.dtype
) -> bool:
    return any(
        not torch.equal(found[name].to(precision), tensor.to(precision))
        for name, tensor in right.items()
    )
