import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coevolve.config.load import load_config
from coevolve.estimate import learner_memory
from coevolve.estimate.estimate import Estimate, estimate
from coevolve.estimate.estimate_lines import estimate_lines
from coevolve.learning import scoring
from coevolve.learning.policy import Policy
from coevolve.models.model_folder import TINY_FOLDER
from protocols.config import (
    EvaluatorConfig,
    LearnerConfig,
    PolicyConfig,
    RolloutConfig,
    RunConfig,
    StoreConfig,
    VllmEngine,
)
from protocols.errors import ConfigError
from protocols.learner_config import GuardConfig, ImitationConfig

CONFIGS = Path(__file__).parents[3] / "configs"
SMALL = {
    "model_type": "qwen3",
    "hidden_size": 10,
    "intermediate_size": 30,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 5,
    "vocab_size": 100,
    "tie_word_embeddings": True,
}
LAYER = 20 * 10 + 2 * 10 * 10 + 10 * 20 + 3 * 30 * 10 + 2 * 10 + 2 * 5
"""Queries, keys and values, output, feed-forward network, two norms and two norms of heads."""

PARAMETERS = 100 * 10 + 10 + 2 * LAYER


def small(tmp_path: Path, **policy: Any) -> RunConfig:
    """Return a run of a model without weights whose parameters can be counted by hand."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    return RunConfig(
        name="small",
        policy=PolicyConfig(model=str(tmp_path), **policy),
        rollout=RolloutConfig(max_tokens=50, group_size=4, concurrent=3),
        learner=LearnerConfig(
            steps=20,
            groups_per_step=2,
            micro_batch_tokens=40,
            imitation=ImitationConfig(replay_per_step=1),
            max_staleness=0,
        ),
    )


def plain(config: RunConfig) -> RunConfig:
    """Return the same run without imitation and without a measured divergence."""
    nothing = ImitationConfig(weight=0.0, replay_per_step=0)
    learner = replace(config.learner, imitation=nothing, divergence_every=0)
    return replace(config, learner=learner)


def test_all_weights_take_sixteen_bytes_each_in_float32(tmp_path: Path):
    found = estimate(plain(small(tmp_path)))
    assert (found.parameters, found.trained) == (PARAMETERS, PARAMETERS)
    assert found.learner == {
        "weights": 4 * PARAMETERS,
        "gradients": 4 * PARAMETERS,
        "optimizer": 8 * PARAMETERS,
        "reference": 0,
        "copies": 0,
        # One conversation has 50 tokens, more than a micro-batch of 40.
        # Two layers, gradients in work, and the last norm.
        "activations": 50
        * (2 * 4 * (6 * 10 + 4 * 20 + 4 * 10 + 4 * 30) + max(8 * 30, 12 * 10, 9 * 20) + 8 * 10),
        "logits": 16 * 50 * 100,
    }


def learning(config: RunConfig, **changes: Any) -> RunConfig:
    return replace(config, learner=replace(config.learner, **changes))


def test_imitation_has_its_own_optimizer_state_in_memory_and_on_disk(tmp_path: Path):
    config = plain(small(tmp_path))
    imitates = learning(config, imitation=ImitationConfig(weight=1.0, replay_per_step=0))
    assert estimate(config).learner["optimizer"] == 8 * PARAMETERS
    assert estimate(imitates).learner["optimizer"] == 16 * PARAMETERS
    assert estimate(config).disk.checkpoint == 12 * PARAMETERS
    assert estimate(imitates).disk.checkpoint == 20 * PARAMETERS
    assert (
        estimate(learning(imitates, objective={"kind": "none"})).disk.checkpoint == 12 * PARAMETERS
    )
    assert estimate(config, imitates_others=True).disk.checkpoint == 20 * PARAMETERS
    tuned = learning(config, objective={"kind": "sft"})
    assert estimate(tuned, imitates_others=True).disk.checkpoint == 12 * PARAMETERS


def test_measuring_the_divergence_needs_the_first_weights_unless_an_adapter_is_trained(
    tmp_path: Path,
):
    config = plain(small(tmp_path))
    measures = replace(config, learner=replace(config.learner, divergence_every=10))
    assert estimate(measures).learner["reference"] == 4 * PARAMETERS
    adapter = replace(measures, policy=replace(measures.policy, train="lora"))
    assert estimate(adapter).learner["reference"] == 0


def test_bf16_copies_weights_and_keeps_the_stream_between_layers_in_float32(tmp_path: Path):
    config = plain(small(tmp_path, precision="bf16"))
    config = replace(config, learner=replace(config.learner, kl_coefficient=0.1))
    found = estimate(config).learner
    assert found["weights"] == 4 * PARAMETERS
    assert found["reference"] == found["copies"] == 2 * PARAMETERS
    layer = 26 * 10 + 10 * 20 + 10 * 10 + 8 * 30
    assert found["activations"] == 50 * (2 * layer + 240 + 80)
    again = replace(config, policy=replace(config.policy, gradient_checkpointing=True))
    assert estimate(again).learner["copies"] == 0
    assert estimate(again).learner["activations"] == 50 * (2 * 4 * 10 + layer + 240 + 80)


def test_devices_share_weights_and_moments_and_each_has_a_micro_batch_of_its_own(tmp_path: Path):
    one = plain(small(tmp_path))
    four = learning(one, devices=4)
    alone, shared = estimate(one).learner, estimate(four).learner
    for purpose in ("weights", "gradients", "optimizer"):
        assert shared[purpose] == pytest.approx((alone[purpose] or 0) / 4, abs=1)
    assert alone["weights"]
    assert shared["activations"] == alone["activations"]


def test_an_adapter_learns_both_ends_of_every_linear_layer(tmp_path: Path):
    found = estimate(small(tmp_path, train="lora", lora_rank=3, precision="bf16"))
    ends = (20 + 10) + 2 * (10 + 10) + (10 + 20) + 2 * (30 + 10) + (10 + 30)
    assert found.trained == 2 * 3 * ends
    assert found.learner["weights"] == 2 * PARAMETERS + 4 * found.trained
    assert found.learner["gradients"] == 4 * found.trained
    assert found.learner["reference"] == found.learner["copies"] == 0
    chosen = estimate(small(tmp_path, train="lora", lora_rank=3, lora_targets=("q_proj",)))
    assert chosen.trained == 2 * 3 * (20 + 10)


def test_an_engine_keeps_keys_and_values_of_every_layer(tmp_path: Path):
    config = small(tmp_path)
    found = estimate(replace(config, evaluator=EvaluatorConfig(engine="own")))
    assert found.cache_bytes_a_token == 2 * 2 * 10 * 4
    assert found.engine == {"weights": 4 * PARAMETERS, "keys and values": 160 * 3 * 50}
    scored = estimate(replace(config, evaluator=EvaluatorConfig(concurrent=4)))
    assert scored.engine["keys and values"] == 160 * (3 + 4) * 50
    engine = VllmEngine(dtype="bfloat16", kv_cache_mb=1)
    found = estimate(replace(config, rollout=replace(config.rollout, engine=engine)))
    assert found.engine == {"weights": 2 * PARAMETERS, "keys and values": 2**20}
    assert found.cached_tokens == 2**20 // 80


def test_tokens_of_a_step_are_those_of_the_longest_conversations(tmp_path: Path):
    found = estimate(small(tmp_path))
    assert found.rollout_tokens == 2 * 4 * 50
    assert found.trained_tokens == 2 * 4 * 50 + 50


def test_a_run_writes_versions_checkpoints_and_a_journal_of_bounded_size(tmp_path: Path):
    config = small(tmp_path)
    disk = estimate(config).disk
    journal = 13 * 400
    assert (disk.version, disk.checkpoint) == (4 * PARAMETERS, 20 * PARAMETERS)
    assert disk.journal_a_step == journal
    # Kept: the scored versions 0 and 20, three recent ones, and the checkpoints of steps 10 and 20;
    # at the end of a day three checkpoints and the best one. And two of the newest.
    assert disk.whole_run == 5 * 4 * PARAMETERS + 4 * 20 * PARAMETERS + 20 * journal
    assert disk.a_day == 36 * 4 * PARAMETERS + 6 * 20 * PARAMETERS + 1440 * journal
    bounded = replace(config, store=StoreConfig(retain_gb=1e-6))
    assert estimate(bounded).disk.whole_run == 5 * 4 * PARAMETERS + 4 * 20 * PARAMETERS + 1073
    copied = replace(config, store=StoreConfig(copies="/elsewhere"))
    assert estimate(copied).disk.whole_run == disk.whole_run + 20 * journal
    assert estimate(copied).disk.copies == 4 * 4 * PARAMETERS + 4 * 20 * PARAMETERS + 40 * journal
    assert "at store.copies: " in "\n".join(estimate_lines(estimate(copied), copied))
    assert disk.copies == 0
    unguarded = learning(config, guard=GuardConfig(action="none"), keep_checkpoints=1)
    assert estimate(unguarded).disk.a_day == disk.a_day - 3 * 20 * PARAMETERS


def test_an_unknown_architecture_gives_unknown_sizes(tmp_path: Path):
    config = small(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    engine = VllmEngine(gpus=1.0, kv_cache_mb=0)
    config = replace(config, rollout=replace(config.rollout, engine=engine))
    found = estimate(config)
    assert (found.parameters, found.learner["weights"], found.disk.whole_run) == (None, None, None)
    said = "\n".join(estimate_lines(found, config))
    assert "parameters: unknown, of which unknown learn" in said
    assert "unknown weights + unknown keys and values" in said


def test_a_model_neither_on_disk_nor_known_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="hf download"):
        estimate(RunConfig(name="a", policy=PolicyConfig(model="Some/Model")))


def test_the_estimate_for_the_tiny_policy_equals_its_size(quickstart: RunConfig, tmp_path: Path):
    found = estimate(quickstart)
    policy = Policy(quickstart.policy, TINY_FOLDER)
    count = sum(each.numel() for each in policy.parameters())
    assert found.parameters == found.trained == count
    policy.save(tmp_path)
    written = (tmp_path / "model.safetensors").stat().st_size
    assert found.disk.version == pytest.approx(written, rel=0.01)


def test_the_estimate_for_an_adapter_equals_its_size(quickstart: RunConfig, tmp_path: Path):
    config = replace(quickstart, policy=PolicyConfig(train="lora", lora_rank=4))
    policy = Policy(config.policy, TINY_FOLDER)
    assert estimate(config).trained == sum(each.numel() for each in policy.parameters())


def test_chunks_of_logits_are_as_large_as_the_learner_makes_them():
    assert learner_memory.LOGITS_AT_ONCE == scoring.LOGITS_AT_ONCE


def test_the_estimate_for_a_known_model_not_on_disk_is_printed():
    config = load_config(CONFIGS / "bfcl_qwen3_4b.yaml", ["learner.devices=1"])
    found: Estimate = estimate(config)
    said = "\n".join(estimate_lines(found, config))
    assert "parameters: 4.02 G, of which 4.02 G learn" in said
    assert "16.1 GB weights + 16.1 GB gradients + 32.2 GB optimizer + 8.04 GB reference" in said
    assert "an engine's device: 8.04 GB weights + unknown keys and values" in said
    assert "147 kB a token" in said
    assert "not counted: libraries and the run's other processes" in said
