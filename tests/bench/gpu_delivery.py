"""Parts of the benchmark on a GPU: versions of a bf16 learner reach a bf16 engine, provably.

The learner takes steps in a process of its own, which ends before the engine starts, and publishes
seven versions. The engine serves five, each with the proof of a run. It must refuse the sixth,
whose file is changed in one bit, and an alarm must tell that the seventh, which the engine reports
without loading it, is not what it serves.

As a program: `python -m tests.bench.gpu_delivery PLACE SIZE DEVICE TRAIN` publishes.
"""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.vllm import environment
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.learning.batch import Batch
from coevolve.learning.trainer import Trainer
from coevolve.models.weight_files import WEIGHTS_FILES, model_digest, version_digest
from protocols.config import RunConfig, VllmEngine
from protocols.errors import DeliveryError
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, WeightsFormat, WeightsVerified
from tests.bench.delivery import Deaf
from tests.bench.gpu_models import Bench, batch, engine_settings, learner_config
from tests.bench.gpu_outcome import Outcome, proof
from tests.contexts import context_of

GOOD = 5
"""Versions that are delivered; a changed one and one that is not loaded follow."""

RATES = {"full": 1e-4, "lora": 1e-2}
"""Learning rates that change most rows in bfloat16 at every step."""

VERSIONS = "versions.msgpack"


def deliver_full(bench: Bench) -> Outcome:
    """Deliver all weights."""
    return _deliver(bench, "full")


def deliver_adapter(bench: Bench) -> Outcome:
    """Deliver adapters, which the engine keeps beside its weights."""
    return _deliver(bench, "lora")


def _deliver(bench: Bench, train: WeightsFormat) -> Outcome:
    command = [sys.executable, "-m", "tests.bench.gpu_delivery"]
    command += [str(bench.place), bench.size, bench.device, train]
    subprocess.run(command, check=True, stdout=sys.stderr)
    published = (bench.place / train / VERSIONS).read_bytes()
    versions = msgspec.msgpack.decode(published, type=list[PolicyVersion])
    found, caught = asyncio.run(_serve(bench, train, versions))
    most = max(each.max_abs_difference for each in found)
    wall_s = sum(each.wall_s for each in found) / len(found)
    return proof(
        f"deliver-{'adapter' if train == 'lora' else train}",
        len(found) == GOOD and all(caught),
        f"delivery of {train} {bench.size} in bf16: {len(found)} of {GOOD} versions proven, "
        f"{sum(caught)} of 2 wrong ones caught, logprobs differ by {most:.2g} at most, "
        f"{wall_s:.2g} s a version",
        proven=len(found),
        caught=sum(caught),
        most=most,
        version_s=wall_s,
    )


async def _serve(
    bench: Bench, train: WeightsFormat, versions: Sequence[PolicyVersion]
) -> tuple[list[WeightsVerified], tuple[bool, bool]]:
    """Return the proofs, and whether the changed and the unloaded version raised an alarm."""
    folder = bench.place / train
    config = _config(bench, train)
    generator = _generator(bench, train, folder, config)
    store = LocalStore(Journal.open(folder / "journal"))

    def verified(one: Any) -> VerifiedEngine:
        return VerifiedEngine(context_of(config, store, folder=folder), "bench", one)

    engine = verified(generator)
    *good, changed, unloaded = versions
    proofs = [await engine.serve(version) for version in good]
    _flip_a_bit(folder / changed.path / WEIGHTS_FILES[train])
    caught = (
        await _alarms(engine, changed),
        await _alarms(verified(Deaf(generator, good[-1])), unloaded),
    )
    await generator.close()
    return proofs, caught


async def _alarms(engine: VerifiedEngine, version: PolicyVersion) -> bool:
    try:
        await engine.serve(version)
    except DeliveryError:
        return True
    return False


def _generator(bench: Bench, train: WeightsFormat, folder: Path, config: RunConfig) -> Generator:
    settings = config.rollout.engine
    assert isinstance(settings, VllmEngine)
    environment.set_variables(settings)
    from coevolve.engine.vllm.core import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    adapters = 4 if train == "lora" else 0
    limits = Limits(
        concurrent=8, length=256, adapters=adapters, rank=config.policy.lora_rank if adapters else 0
    )
    return VllmGenerator(bench.model(), folder, settings, limits)


def _config(bench: Bench, train: WeightsFormat) -> RunConfig:
    config = learner_config(bench, train=train, rate=RATES[train])
    deliver = "adapter" if train == "lora" else "merged"
    rollout = msgspec.structs.replace(
        config.rollout,
        engine=engine_settings(bench, deliver=deliver, enforce_eager=True),
        max_tokens=240,
    )
    return msgspec.structs.replace(config, rollout=rollout)


def _flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def publish(bench: Bench, train: WeightsFormat) -> None:
    """Take steps, and write a version after each of them, and their records."""
    config = _config(bench, train)
    folder = bench.place / train
    trainer = Trainer(config, bench.model())
    base = model_digest(bench.model())
    versions = [_published(bench, config, trainer, base, n) for n in range(1, GOOD + 3)]
    (folder / VERSIONS).write_bytes(msgspec.msgpack.encode(versions))


def _published(
    bench: Bench, config: RunConfig, trainer: Trainer, base: str, number: int
) -> PolicyVersion:
    train, path = config.policy.train, f"versions/{number}"
    place = bench.place / train / path
    place.mkdir(parents=True)
    trainer.take_step(Batch(step=number, groups=batch(bench, config, seed=number)))
    trainer.save_weights(place)
    scale = config.policy.lora_alpha / config.policy.lora_rank
    return PolicyVersion(
        version=number,
        path=path,
        format=train,
        digest=version_digest(place, train),
        size_bytes=(place / WEIGHTS_FILES[train]).stat().st_size,
        kept=False,
        base=base,
        scale=scale if train == "lora" else 0.0,
        probe=trainer.probe(),
    )


if __name__ == "__main__":
    place_, size_, device_, train_ = sys.argv[1:]
    publish(
        Bench(place=Path(place_), size=size_, device=device_),
        msgspec.convert(train_, WeightsFormat),
    )
