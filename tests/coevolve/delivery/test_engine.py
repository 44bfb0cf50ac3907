import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from coevolve.delivery.alarms import fault, sentence
from coevolve.delivery.engine import VerifiedEngine
from coevolve.delivery.probe import PROBE_TOKENS, probe_tokens, tolerance_of
from coevolve.engine.generator import TransformersGenerator
from coevolve.learning.policy import Policy
from coevolve.models.weight_files import version_digest
from protocols import columns
from protocols.config import DeliveryConfig, PolicyConfig, RolloutConfig, RunConfig, VllmEngine
from protocols.errors import DeliveryError, GeneratorError
from protocols.generation import GenerationRequest
from protocols.learning import (
    NothingDelivered,
    OldVersionServed,
    PolicyVersion,
    Probe,
    ServedWeights,
    WeightsDiffer,
    WeightSyncAlarm,
)
from tests.delivering import DeafGenerator, Published, TamperedGenerator
from tests.fakes import ScriptGenerator


@pytest.fixture(scope="module", params=["lora", "full"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published.by_a_learner(tmp_path_factory.mktemp("run"), request.param)


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published.by_a_learner(tmp_path_factory.mktemp("run"))


@pytest.fixture
async def generator(lora: Published, run: Published) -> AsyncIterator[TransformersGenerator]:
    generator = run.generator()
    yield generator
    await generator.close()


@pytest.fixture
def run(lora: Published, tmp_path: Path) -> Published:
    return lora.copy(tmp_path)


@pytest.fixture
def engine(run: Published, generator: TransformersGenerator) -> VerifiedEngine:
    return run.engine(generator)


async def refused(engine: VerifiedEngine, version: PolicyVersion) -> str:
    with pytest.raises(DeliveryError) as refusal:
        await engine.serve(version)
    return str(refusal.value)


def test_a_probe_is_the_same_all_run_and_within_the_vocabulary() -> None:
    assert probe_tokens(3, 64) == probe_tokens(3, 64) != probe_tokens(4, 64)
    assert len(probe_tokens(3, 64)) == PROBE_TOKENS
    assert set(probe_tokens(0, 2)) == {0, 1}


def test_every_version_carries_the_logprobs_of_its_own_weights(either: Published) -> None:
    versions = either.versions()
    assert len({version.probe.token_ids for version in versions}) == 1
    assert len({version.probe.logprobs for version in versions}) == len(versions) == 4
    for version in versions:
        policy = Policy(
            either.config.policy,
            Path(either.config.policy.model),
            weights=either.run_dir / version.path,
        )
        ids_1_T = torch.tensor([columns.from_int32(version.probe.token_ids)])
        mask_1_T = torch.ones_like(ids_1_T, dtype=torch.bool)
        mask_1_T[:, 0] = False
        expected, _ = policy.logprobs(ids_1_T, mask_1_T, temperature=1.0)
        assert columns.from_float32(version.probe.logprobs) == expected.tolist()


async def test_an_engine_proves_each_version_that_it_takes_over(either: Published) -> None:
    generator = either.generator()
    engine = either.engine(generator)
    for version in either.versions():
        proof = await engine.serve(version)
        assert (proof.engine, proof.version) == ("rollout-0", version.version)
        assert proof.digest == version.digest
        assert proof.max_abs_difference < 1e-5
        assert 0 <= proof.pause_s <= proof.wall_s < 30
    await generator.close()
    assert not either.alarms()


async def test_the_pause_is_that_of_requests_in_flight(
    run: Published, generator: TransformersGenerator, engine: VerifiedEngine
) -> None:
    requests = [
        GenerationRequest(
            conversation_id=f"talk-{number}",
            prompt_ids=(1, 2, 3),
            max_tokens=60,
            stop_ids=(),
            temperature=1.0,
            seed=number,
        )
        for number in range(8)
    ]
    spent_s = generator.cpu_s()
    flight = asyncio.gather(*map(generator.generate, requests))
    while generator.cpu_s() == spent_s:  # noqa: ASYNC110 -- the engine's thread sets no event
        await asyncio.sleep(0)
    proof = await engine.serve(run.versions()[1])
    said = await flight
    assert any(set(each.versions) == {0, 1} for each in said)
    assert 0 < proof.pause_s < proof.wall_s
    assert (await engine.serve(run.versions()[2])).pause_s == 0


async def test_a_file_that_changed_after_it_was_published_raises_an_alarm(
    run: Published, engine: VerifiedEngine
) -> None:
    content = bytearray(run.weights(2).read_bytes())
    content[-1] ^= 0xFF
    run.weights(2).write_bytes(content)
    said = await refused(engine, run.versions()[2])
    (alarm,) = run.alarms()
    assert (alarm.engine, alarm.version) == ("rollout-0", 2)
    assert isinstance(alarm.reason, WeightsDiffer)
    assert alarm.reason.found_digest == version_digest(run.weights(2).parent, "lora")
    assert alarm.reason.expected_digest == run.versions()[2].digest
    assert said == fault(alarm)
    assert sentence(alarm).startswith(said)
    assert alarm.reason.found_digest[:12] in said
    assert "rollout-0 must serve version 2" in said
    assert "the learner writes the newest version again when the run is resumed" in said


async def test_weights_that_were_wrong_when_they_were_published_raise_an_alarm(
    run: Published, engine: VerifiedEngine
) -> None:
    weights = load_file(run.weights(2))
    weights = {name: tensor * 1.5 for name, tensor in weights.items()}
    save_file(weights, run.weights(2), metadata={"format": "pt"})
    digest = version_digest(run.weights(2).parent, "lora")
    version = msgspec.structs.replace(run.versions()[2], digest=digest)
    said = await refused(engine, version)
    (alarm,) = run.alarms()
    assert isinstance(alarm.reason, WeightsDiffer)
    assert alarm.reason.found_digest == alarm.reason.expected_digest == digest
    served = await engine.generator.load(version)
    off = np.abs(
        np.subtract(
            columns.from_float32(served.logprobs), columns.from_float32(version.probe.logprobs)
        )
    )
    assert alarm.reason.max_abs_difference == pytest.approx(off.max())
    assert alarm.reason.position == off.argmax() + 1
    assert f"token {alarm.reason.position} of the probe" in said
    assert "maximum: 0.001" in said


async def test_an_old_file_in_a_new_place_is_called_by_its_version(
    run: Published, engine: VerifiedEngine
) -> None:
    shutil.copy(run.weights(1), run.weights(3))
    said = await refused(engine, run.versions()[3])
    (alarm,) = run.alarms()
    assert alarm.reason == OldVersionServed(served=1, evidence="digest")
    assert "by the digest it serves version 1 instead" in said


async def test_an_engine_that_wrongly_claims_a_version_is_detected(
    run: Published, generator: TransformersGenerator
) -> None:
    engine = run.engine(DeafGenerator(generator))
    await engine.serve(run.versions()[1])
    await refused(engine, run.versions()[2])
    (alarm,) = run.alarms()
    assert (alarm.version, alarm.reason) == (2, OldVersionServed(served=1, evidence="tensors"))


async def test_an_engine_that_says_itself_that_it_serves_an_old_version_is_believed(
    run: Published,
) -> None:
    class Honest(ScriptGenerator):
        async def load(self, version: PolicyVersion) -> ServedWeights:
            return msgspec.structs.replace(await super().load(version), version=0)

    await refused(run.engine(Honest([])), run.versions()[2])
    (alarm,) = run.alarms()
    assert alarm.reason == OldVersionServed(served=0, evidence="statement")


class PartlySilent(TamperedGenerator):
    """Says nothing about one kind of tensor."""

    async def load(self, version: PolicyVersion) -> ServedWeights:
        served = await super().load(version)
        rows = {name: sums for name, sums in served.rows.items() if "down_proj" not in name}
        assert len(rows) < len(served.rows)
        return msgspec.structs.replace(served, rows=rows)


async def test_a_tensor_that_an_engine_does_not_report_is_noticed(
    run: Published, generator: TransformersGenerator
) -> None:
    said = await refused(run.engine(PartlySilent(generator)), run.versions()[-1])
    assert "differ from the published files" in said
    assert "down_proj" in said


async def test_nan_logprobs_raise_an_alarm(run: Published) -> None:
    class Broken(ScriptGenerator):
        async def load(self, version: PolicyVersion) -> ServedWeights:
            nothing = columns.float32([float("nan")] * (PROBE_TOKENS - 1))
            return msgspec.structs.replace(await super().load(version), logprobs=nothing)

    await refused(run.engine(Broken([])), run.versions()[2])
    assert [type(alarm.reason) for alarm in run.alarms()] == [WeightsDiffer]


async def test_a_version_that_is_gone_is_an_error_of_the_machine_and_no_alarm(
    run: Published, engine: VerifiedEngine
) -> None:
    shutil.rmtree(run.weights(2).parent)
    with pytest.raises(GeneratorError, match="cannot read the weights of version 2"):
        await engine.serve(run.versions()[2])
    assert not run.alarms()


async def test_a_version_without_a_probe_is_proven_by_its_digest(
    run: Published, engine: VerifiedEngine
) -> None:
    version = msgspec.structs.replace(run.versions()[2], probe=Probe())
    proof = await engine.serve(version)
    assert (proof.digest, proof.max_abs_difference) == (version.digest, 0.0)


async def test_a_step_that_changed_nothing_makes_no_alarm(
    run: Published, engine: VerifiedEngine
) -> None:
    again = msgspec.structs.replace(run.versions()[3], version=4)
    run.journal.add(again)
    await engine.serve(run.versions()[3])
    assert (await engine.serve(again)).version == 4


def test_the_tolerance_is_the_configured_one_or_that_of_the_precision() -> None:
    assert tolerance_of(RunConfig(name="test")) == 1e-3
    exact, half = VllmEngine(), VllmEngine(dtype="bfloat16")
    assert tolerance_of(RunConfig(name="test", rollout=RolloutConfig(engine=exact))) == 1e-3
    assert tolerance_of(RunConfig(name="test", rollout=RolloutConfig(engine=half))) == 0.5
    assert tolerance_of(RunConfig(name="test", policy=PolicyConfig(precision="bf16"))) == 0.5
    assert tolerance_of(RunConfig(name="test", delivery=DeliveryConfig(tolerance=0.2))) == 0.2


def test_a_missing_delivery_names_the_log_and_the_setting() -> None:
    reason = NothingDelivered(waited_s=300.2, newest=-1)
    said = sentence(WeightSyncAlarm(engine="rollout-1", version=7, reason=reason))
    assert "rollout-1 must serve version 7, and no proof came within 300 s" in said
    assert "logs/rollout-1.jsonl; raise delivery.timeout_s" in said
    assert "continue it with `coevolve resume NAME`" in said
