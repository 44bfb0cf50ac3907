"""Versions of models of many architectures are written, delivered and proven."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.engine.generator import TransformersGenerator
from coevolve.learning.policy import Policy
from coevolve.models.load import read_model
from coevolve.models.weight_files import model_digest, version_digest
from protocols import columns
from protocols.config import PolicyConfig, RolloutConfig, RunConfig, TransformersEngine
from protocols.errors import GeneratorError, LearnerError
from protocols.learning import PolicyVersion, Probe, WeightsFormat
from tests.delivering import proven
from tests.learning import MemoryJournal
from tests.serving import MAX_LENGTH, PROBED, SHAPE, converse, difference

GROUPED: dict[str, Any] = {"num_key_value_heads": 1, "head_dim": 32}
ROUTED: dict[str, Any] = {
    "n_routed_experts": 4,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
SMALL_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
EAGER: Mapping[str, dict[str, Any]] = {
    "codegen": {"num_attention_heads": 4, "rotary_dim": 16},
    "gpt_neo": {
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "window_size": MAX_LENGTH,
    },
    "gpt_oss": GROUPED | {"num_local_experts": 4, "sliding_window": MAX_LENGTH},
    "gptj": {"rotary_dim": 16},
    "xglm": {"ffn_dim": 96},
}
"""Architectures that support only eager attention."""

KINDS: Mapping[str, dict[str, Any]] = EAGER | {
    "ernie4_5_moe": GROUPED | {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16},
    "gemma2": GROUPED,
    "glm4_moe": GROUPED | ROUTED | SMALL_EXPERTS,
    "gpt_neox": {},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "mixtral": GROUPED | {"num_local_experts": 4},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "phi3": {"num_key_value_heads": 1, "pad_token_id": 0},
    "phi3_longrope": {
        "num_key_value_heads": 1,
        "pad_token_id": 0,
        "max_position_embeddings": 4 * MAX_LENGTH,
        "original_max_position_embeddings": MAX_LENGTH,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 1.0,
            "original_max_position_embeddings": MAX_LENGTH,
            "short_factor": [1.0] * 16,
            "long_factor": [2.0] * 16,
        },
    },
    "qwen2_moe": {"num_key_value_heads": 1, "num_experts": 4, "shared_expert_intermediate_size": 16}
    | SMALL_EXPERTS,
    "qwen3_moe": GROUPED | {"num_experts": 4} | SMALL_EXPERTS,
}
ALPHA, RANK = 6, 4


def write_base(kind: str, folder: Path, settings: dict[str, Any] | None = None) -> None:
    shape: dict[str, Any] = {name: each for name, each in SHAPE.items() if name not in GROUPED}
    own = KINDS.get(kind, {}) if settings is None else settings
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind.removesuffix("_longrope"), **(shape | own))
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


@pytest.mark.parametrize("kind", [*EAGER, "mpt"])
async def test_conversations_match_a_plain_forward(kind: str, tmp_path: Path) -> None:
    write_base(kind, tmp_path)
    generator = TransformersGenerator(tmp_path, tmp_path, max_concurrent=4, max_length=MAX_LENGTH)
    talks = await asyncio.gather(*(converse(generator, f"talk {n}", 3) for n in range(6)))
    await generator.close()
    model = read_model(tmp_path)
    for request, said in (each for talk in talks for each in talk):
        assert difference(model, request, said).max() < 1e-3


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (
            "bloom",
            {},
            "needs a model that accepts the mask .* found bloom, which fails: .*; choose",
        ),
        ("falcon", {"alibi": True}, "found falcon, which fails: "),
        ("openai-gpt", {}, "found openai-gpt, which fails: "),
        ("gpt_neo", EAGER["gpt_neo"] | {"window_size": 16}, "found local attention to 16 of 256"),
        ("mamba", {"state_size": 8}, "found layers of linear_attention"),
    ],
)
def test_a_model_that_cannot_be_batched_is_refused(
    kind: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write_base(kind, tmp_path, settings)
    with pytest.raises(GeneratorError, match=words):
        TransformersGenerator(tmp_path, tmp_path, max_concurrent=2, max_length=MAX_LENGTH)


def publish(policy: Policy, number: int, format: WeightsFormat, run_dir: Path) -> PolicyVersion:
    """Change every trainable weight, and write the version as the learner does."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
        ids_1_T = torch.tensor([PROBED])
        written_1_T = torch.ones_like(ids_1_T, dtype=torch.bool)
        written_1_T[:, 0] = False
        logprobs_T, _ = policy.logprobs(ids_1_T, written_1_T, temperature=1.0)
    folder = run_dir / f"versions/{number}"
    folder.mkdir(parents=True)
    policy.save(folder)
    return PolicyVersion(
        version=number,
        path=f"versions/{number}",
        format=format,
        digest=version_digest(folder, format),
        size_bytes=1,
        kept=False,
        base=model_digest(run_dir / "model"),
        scale=ALPHA / RANK if format == "lora" else 0.0,
        probe=Probe(token_ids=columns.int32(PROBED), logprobs=columns.float32(logprobs_T.tolist())),
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("format", ["full", "lora"])
@pytest.mark.parametrize("kind", KINDS)
async def test_versions_are_proven(kind: str, format: Any, dtype: Any, tmp_path: Path) -> None:
    base = tmp_path / "model"
    write_base(kind, base)
    config = RunConfig(
        name=kind,
        policy=PolicyConfig(model=str(base), train=format, lora_rank=RANK, lora_alpha=ALPHA),
        rollout=RolloutConfig(engine=TransformersEngine(dtype=dtype)),
    )
    policy = Policy(config.policy, base)
    generator = TransformersGenerator(
        base, tmp_path, max_concurrent=2, max_length=MAX_LENGTH, dtype=dtype
    )
    engine = proven(generator, MemoryJournal(), tmp_path, config)
    for number in (1, 2):
        proof = await engine.serve(publish(policy, number, format, tmp_path))
        assert proof.rows > 100
    await generator.close()


@pytest.mark.parametrize("format", ["full", "lora"])
def test_weights_are_read_again(format: Any, tmp_path: Path) -> None:
    base = tmp_path / "model"
    write_base("mixtral", base)
    config = PolicyConfig(model=str(base), train=format, lora_rank=RANK)
    policy = Policy(config, base)
    publish(policy, 1, format, tmp_path)
    again = Policy(config, base, weights=tmp_path / "versions/1")
    third = Policy(config, base)
    third.load(tmp_path / "versions/1")
    for other in (again, third):
        for mine, its in zip(policy.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, its)


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens", "norm", "layers.0.mlp", "w1"])
def test_only_linear_layers_get_an_adapter(target: str, tmp_path: Path) -> None:
    write_base("mixtral", tmp_path)
    config = PolicyConfig(train="lora", lora_targets=("q_proj", target))
    with pytest.raises(LearnerError, match=f"has k_proj, o_proj, q_proj, v_proj, found {target};"):
        Policy(config, tmp_path)
