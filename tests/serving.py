"""Small models, requests and policy versions for tests of rollout engines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from coevolve.models.weight_files import WEIGHTS_FILES, model_digest, version_digest
from protocols import columns
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, Probe, WeightsFormat

VOCABULARY = 200
MAX_LENGTH = 256
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": MAX_LENGTH,
    "initializer_range": 0.2,
}
PROBED = tuple(range(3, 35))

Spoken = tuple[GenerationRequest, Generation]


def new_model(architecture: str, seed: int = 0) -> PreTrainedModel:
    """Return a random Qwen3 with tied embeddings, or a Llama without."""
    torch.manual_seed(seed)
    if architecture == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True)).eval()
    return LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=False)).eval()


def adapted(base: Path, seed: int = 0) -> PeftModel:
    """Return the model of ``base`` with a random adapter on every linear layer."""
    torch.manual_seed(seed)
    config = LoraConfig(r=4, lora_alpha=6, target_modules="all-linear")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    assert isinstance(model, PeftModel)
    return model.eval()


def published(
    run_dir: Path, number: int, model: PreTrainedModel | PeftModel, format: WeightsFormat = "full"
) -> PolicyVersion:
    """Write ``model`` as a policy version, with a probe."""
    path = f"versions/{number}"
    model.save_pretrained(str(run_dir / path), save_original_format=False)
    logprobs = plain_logprobs(model, PROBED, 1.0)
    return PolicyVersion(
        version=number,
        path=path,
        format=format,
        digest=version_digest(run_dir / path, format),
        size_bytes=(run_dir / path / WEIGHTS_FILES[format]).stat().st_size,
        kept=False,
        base=model_digest(run_dir / "model") if (run_dir / "model").is_dir() else "",
        scale=6 / 4 if format == "lora" else 0.0,
        probe=Probe(
            token_ids=columns.int32(PROBED),
            logprobs=columns.float32(chosen(logprobs[:-1], PROBED[1:]).tolist()),
        ),
    )


@torch.no_grad()
def plain_logprobs(model: Any, token_ids: Sequence[int], temperature: float) -> torch.Tensor:
    """Return logprobs of one plain forward pass over a whole conversation: (tokens, vocabulary)."""
    logits = model(input_ids=torch.tensor([token_ids]), use_cache=False).logits[0].float()
    return torch.log_softmax(logits / (temperature or 1.0), dim=-1)


def chosen(logprobs_T_V: torch.Tensor, token_ids: Sequence[int]) -> torch.Tensor:
    return logprobs_T_V.gather(1, torch.tensor(token_ids)[:, None])[:, 0]


def difference(model: Any, request: GenerationRequest, said: Generation) -> torch.Tensor:
    """Return each logprob's difference from a plain forward; greedy tokens must be its best."""
    ids = request.prompt_ids + said.token_ids
    expected = plain_logprobs(model, ids, request.temperature)[len(request.prompt_ids) - 1 : -1]
    found = torch.tensor(said.logprobs)
    apart = (found - chosen(expected, said.token_ids)).abs()
    if request.temperature == 0:
        apart = torch.maximum(apart, (expected.max(-1).values - found).abs())
    return apart


def ask(conversation: str, prompt: Sequence[int], **settings: Any) -> GenerationRequest:
    plain: dict[str, Any] = {"max_tokens": 8, "stop_ids": (), "temperature": 1.0, "seed": 0}
    return GenerationRequest(
        conversation_id=conversation, prompt_ids=tuple(prompt), **(plain | settings)
    )


async def converse(
    generator: Generator, name: str, turns: int, *, longest: int = 40
) -> list[Spoken]:
    """Hold a conversation with random words of the environment in it."""
    rng = np.random.default_rng(list(name.encode()))
    ids = rng.integers(VOCABULARY, size=rng.integers(1, longest)).tolist()
    spoken: list[Spoken] = []
    for turn in range(turns):
        request = ask(
            name,
            ids,
            max_tokens=int(rng.integers(1, 12)),
            stop_ids=(3, 5, 7),
            temperature=float(rng.choice([0.0, 0.7, 1.0])),
            seed=turn,
        )
        said = await generator.generate(request)
        spoken.append((request, said))
        ids = [*ids, *said.token_ids, *rng.integers(VOCABULARY, size=rng.integers(0, 8)).tolist()]
    return spoken


def moved(model: Any, share: float = 0.003, seed: int = 0) -> Any:
    """Return the model with every weight that learns moved by ``share`` of its tensor's spread."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                spread = float(parameter.std(correction=0)) or float(parameter.abs().mean())
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.add_(share * spread * noise)
    return model
