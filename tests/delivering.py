"""A short run with real weights on disk, and engines for them, for tests of the delivery."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.generator import TransformersGenerator
from coevolve.journal.local_store import LocalStore
from protocols.config import (
    DeliveryConfig,
    EvaluatorConfig,
    LearnerConfig,
    PolicyConfig,
    RolloutConfig,
    RunConfig,
)
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.learner_config import ImitationConfig
from protocols.learning import PolicyVersion, ServedWeights, WeightsFormat, WeightSyncAlarm
from tests.coevolve.learning.learners import learner
from tests.contexts import context_of
from tests.learning import MemoryJournal, add_groups, small_model

STEPS = 3
MAX_LENGTH = 64


def settings(model: Path, train: WeightsFormat = "lora", **delivery: float) -> RunConfig:
    """Return a config whose steps are so large that all versions differ."""
    return RunConfig(
        name="test",
        policy=PolicyConfig(model=str(model), train=train, lora_rank=2, lora_alpha=4),
        rollout=RolloutConfig(group_size=4, max_tokens=MAX_LENGTH),
        learner=LearnerConfig(
            steps=STEPS,
            groups_per_step=2,
            max_staleness=10,
            learning_rate=0.05,
            refill_batches=0,
            imitation=ImitationConfig(replay_size=24),
        ),
        evaluator=EvaluatorConfig(engine="own"),
        # The rollouts were not sampled from the policy.
        delivery=msgspec.convert({"sampler_tolerance": 1.0} | delivery, DeliveryConfig),
    )


@dataclass
class Published:
    """A run that has published versions 0 to `STEPS`."""

    config: RunConfig
    run_dir: Path
    journal: MemoryJournal

    @classmethod
    def by_a_learner(cls, folder: Path, train: WeightsFormat = "lora") -> "Published":
        """Train a small model for some steps."""
        config = settings(small_model(folder / "model"), train)
        journal = MemoryJournal()
        add_groups(journal, range(2 * STEPS))
        asyncio.run(learner(config, folder, journal).run())
        return cls(config, folder, journal)

    def copy(self, folder: Path) -> "Published":
        """Return the same run in another folder, where a test can tamper with it."""
        shutil.copytree(self.run_dir, folder, dirs_exist_ok=True)
        journal = MemoryJournal()
        journal.add(*self.versions())
        return Published(self.config, folder, journal)

    def versions(self) -> list[PolicyVersion]:
        """Every version, by number."""
        found = [v for v in self.journal.all(PolicyVersion) if isinstance(v, PolicyVersion)]
        return sorted(found, key=lambda version: version.version)

    def weights(self, version: int) -> Path:
        """The file with a version's weights."""
        (file,) = (self.run_dir / self.versions()[version].path).glob("*.safetensors")
        return file

    def alarms(self) -> list[WeightSyncAlarm]:
        """Every alarm that was recorded."""
        found = self.journal.all(WeightSyncAlarm)
        return [alarm for alarm in found if isinstance(alarm, WeightSyncAlarm)]

    def generator(self) -> TransformersGenerator:
        """Return a new engine that serves version 0."""
        return TransformersGenerator(
            Path(self.config.policy.model), self.run_dir, max_concurrent=8, max_length=MAX_LENGTH
        )

    def engine(
        self, generator: Generator, journal: MemoryJournal | LocalStore | None = None
    ) -> VerifiedEngine:
        """Return ``generator`` as the engine of rollout-0; the default journal is the run's."""
        return proven(generator, journal or self.journal, self.run_dir, self.config)


def proven(
    generator: Generator, journal: MemoryJournal | LocalStore, run_dir: Path, config: RunConfig
) -> VerifiedEngine:
    """Return ``generator`` as the engine of rollout-0."""
    return VerifiedEngine(context_of(config, journal, folder=run_dir), "rollout-0", generator)


class TamperedGenerator:
    """An engine with a hook before each load of weights."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def before(self, version: PolicyVersion) -> None:
        """Called before each load."""

    async def load(self, version: PolicyVersion) -> ServedWeights:
        await self.before(version)
        return await self._generator.load(version)

    async def generate(self, request: GenerationRequest) -> Generation:
        return await self._generator.generate(request)

    async def release(self, conversation_id: str) -> None:
        await self._generator.release(conversation_id)

    def cpu_s(self) -> float:
        return self._generator.cpu_s()

    async def close(self) -> None:
        await self._generator.close()


class DeafGenerator(TamperedGenerator):
    """Reports the version that it got, but continues with its old weights."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self._served: PolicyVersion | None = None

    async def load(self, version: PolicyVersion) -> ServedWeights:
        self._served = self._served or version
        served = await super().load(self._served)
        return msgspec.structs.replace(served, version=version.version, digest=version.digest)
