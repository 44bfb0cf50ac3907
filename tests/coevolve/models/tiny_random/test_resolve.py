from pathlib import Path

import pytest
from msgspec.structs import replace

from coevolve.models.tiny_random.resolve import running
from coevolve.runs import starting
from protocols.config import PolicyConfig, RolloutConfig, RunConfig, VllmEngine
from protocols.errors import RunError

GPU = RunConfig(
    name="big",
    policy=PolicyConfig(model="Qwen/Qwen3-4B-Instruct-2507", device="cuda"),
    rollout=RolloutConfig(engine=VllmEngine(dtype="bfloat16", gpus=1.0, kv_cache_mb=0)),
)
TINY = replace(GPU, policy=replace(GPU.policy, tiny_random=True))


def test_the_parts_of_a_tiny_random_run_work_on_the_cpu_with_its_own_model():
    at_work = running(TINY, Path("/runs/big"))
    assert (at_work.policy.model, at_work.policy.device) == ("/runs/big/model", "cpu")
    assert at_work.rollout.engine == VllmEngine(dtype="bfloat16", kv_cache_mb=64)
    assert replace(at_work, policy=GPU.policy, rollout=GPU.rollout) == GPU


def test_a_run_without_a_tiny_random_model_works_with_its_own_settings():
    assert running(GPU, Path("/runs/big")) is GPU


def test_the_parts_of_a_run_work_with_the_model_that_its_environment_made(tmp_path: Path):
    config = replace(GPU, policy=replace(GPU.policy, model="sprout"))
    assert running(config, tmp_path) is config
    (tmp_path / "model").mkdir()
    at_work = running(config, tmp_path)
    assert at_work.policy == replace(GPU.policy, model=str(tmp_path / "model"))
    assert at_work.rollout == GPU.rollout


def test_a_tiny_random_run_says_what_it_was_asked_for_and_is_read_as_it_runs(tmp_path: Path):
    run = starting.create(tmp_path / "big", TINY)
    assert run.written_config() == TINY
    assert run.config() == running(TINY, run.path)


def test_a_tiny_random_run_is_not_resumed_with_the_whole_model(tmp_path: Path):
    starting.create(tmp_path / "big", TINY)
    assert starting.reopen(tmp_path / "big", TINY).written_config() == TINY
    with pytest.raises(RunError, match=r"policy.tiny_random: was True, is False"):
        starting.reopen(tmp_path / "big", GPU)
