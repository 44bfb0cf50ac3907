import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from coevolve.config.load import load_config
from coevolve.estimate.estimate import estimate
from coevolve.estimate.estimate_lines import estimate_lines
from coevolve.estimate.step_time import (
    Throughput,
    active,
    learner_flops,
    read_throughput,
    step_time,
)
from coevolve.models.architecture import KNOWN, Architecture, architecture
from protocols.config import RunConfig
from protocols.errors import ConfigError

PLAIN = Throughput(
    tflops=1.0, flops_share=0.5, bandwidth_tb_s=1.0, bandwidth_share=0.5, filled=0.5, sampled=0.5
)


def config(*overrides: str) -> RunConfig:
    return load_config("bfcl_qwen3_4b", overrides)


def sizes(name: str) -> Architecture:
    found = architecture(KNOWN[name])
    assert found is not None
    return found


def test_a_step_of_all_weights_has_six_passes_over_every_token():
    tokens, model = 32 * 8 * 24_576 / 2, sizes("Qwen/Qwen3-4B-Instruct-2507")
    # Forward, two backward, recomputation, the reference, and the logprobs before four updates.
    each = 2 * model.parameters + 2 * 36 * 4096 * 24_576 / 2
    assert learner_flops(config(), model, model.parameters, PLAIN) == pytest.approx(
        6 * tokens * each
    )
    adapter = config("policy.train=lora", "learner.mini_batches=1", "learner.kl_coefficient=0")
    assert learner_flops(adapter, model, model.parameters, PLAIN) == pytest.approx(
        3 * tokens * each
    )


def test_engines_read_weights_once_a_token_and_half_of_all_caches():
    settings = config("rollout.actors=2", "rollout.concurrent=64")
    model = sizes("Qwen/Qwen3-4B-Instruct-2507")
    memory = {"weights": 10**9, "keys and values": 10**15}
    found = step_time(settings, model, 10**9, memory, 1000, PLAIN)
    assert found is not None
    assert (found.at_once, found.room) == (64, 10**15 / (1000 * 24_576))
    length = 24_576 / 2
    decoding = 128 * length / 2 / 64 * (10**9 + 64 * 1000 * length / 2) / 0.5e12
    prompts = 128 * length * 2 * 10**9 / 0.5e12
    assert found.sampling_s == pytest.approx(decoding + prompts)
    assert found.step_s == max(found.learner_s, found.sampling_s)


def test_parts_that_share_a_gpu_or_may_not_run_ahead_work_one_after_the_other():
    halves = ("learner.gpus=0.5", "rollout.engine.gpus=0.5")
    memory = "rollout.engine.gpu_memory_utilization=0.5"
    for overrides in (("learner.max_staleness=0",), ("learner.devices=1", memory, *halves)):
        found = estimate(config(*overrides))
        assert found.step is not None
        assert found.step.step_s == pytest.approx(found.step.learner_s + found.step.sampling_s)
        assert "one after the other" in "\n".join(estimate_lines(found, config(*overrides)))


def test_experts_that_a_token_does_not_use_take_no_time():
    model = sizes("Qwen/Qwen3-30B-A3B-Instruct-2507")
    assert active(model, model.parameters) == pytest.approx(3.3e9, rel=0.05)


def test_a_learner_larger_than_a_gpu_is_told():
    lines = "\n".join(estimate_lines(estimate(config("learner.devices=1")), config()))
    assert "the learner needs 89.8 GB of each GPU: raise learner.devices" in lines


def test_a_run_without_gpus_has_no_time(quickstart: RunConfig):
    assert estimate(quickstart).step is None
    assert estimate(replace(config(), policy=replace(config().policy, device="cpu"))).step is None


def test_measured_lines_replace_assumptions(tmp_path: Path):
    lines = tmp_path / "gpu.jsonl"
    parts = [{"throughput": {"flops_share": 0.3}}, {"throughput": {}}, {"part": "trl"}]
    lines.write_text("\n".join(["measured: words", *map(json.dumps, parts)]))
    found = read_throughput(lines)
    assert found == Throughput(flops_share=0.3)
    slower = estimate(config(), throughput=found).step
    faster = estimate(config()).step
    assert slower is not None
    assert faster is not None
    assert slower.learner_s == pytest.approx(faster.learner_s * 4 / 3)
    lines.write_text('{"throughput": {"speed": 1}}')
    with pytest.raises(ConfigError, match=r"tests\.bench gpu"):
        read_throughput(lines)
