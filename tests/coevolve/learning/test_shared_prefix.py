from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from coevolve.learning.policy import micro_batches, padded
from coevolve.learning.rows import Conversation, Row
from coevolve.learning.scoring import score
from coevolve.learning.shared_prefix import Prefix, can_share

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8)),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**SIZES, head_dim=8)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_embd=16, n_layer=2, n_head=2, n_positions=64)
    ),
}
PREFIX = (5, 6, 7, 8, 9, 10, 11, 12)


def sides() -> list[Conversation]:
    """Conversations that begin with `PREFIX` and go on differently."""
    rests = [(20, 21, 22), (30, 31), (40, 41, 42, 43, 44), (20, 21, 50)]
    masks = [(0, 1, 1), (1, 1), (0, 1, 0, 0, 1), (0, 1, 1)]
    return [
        Conversation(token_ids=PREFIX + rest, mask=(0,) * len(PREFIX) + mask)
        for rest, mask in zip(rests, masks, strict=True)
    ]


def prefix_length(ids_B_T: torch.Tensor, mask_B_T: torch.Tensor) -> int:
    return Prefix().joined(zip(ids_B_T.tolist(), mask_B_T.tolist(), strict=True)).length


def rows(conversations: list[Conversation]) -> list[Row]:
    return [Row(sides=(side,), streams=()) for side in conversations]


@pytest.mark.parametrize("at_once", [2**20, 2 * 64], ids=["whole", "chunks"])
@pytest.mark.parametrize("name", MODELS)
def test_a_shared_prefix_gives_the_logprobs_and_gradients_of_whole_rows(name: str, at_once: int):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    assert can_share(model)
    ids_B_T, mask_B_T = padded(rows(sides()))
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    computed: list[int] = []

    def count(_: object, args: object, kwargs: dict[str, Any]) -> None:
        computed.append(kwargs["input_ids"].numel())

    model.register_forward_pre_hook(count, with_kwargs=True)
    for shares in (False, True):
        model.zero_grad()
        logprobs_N, _ = score(
            model, ids_B_T, mask_B_T, temperature=0.7, logits_at_once=at_once, shares=shares
        )
        (torch.linspace(-1, 2, len(logprobs_N)) * logprobs_N).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((logprobs_N.detach(), gradient))
    (plain_N, plain), (shared_N, shared) = found
    assert torch.allclose(plain_N, shared_N, rtol=0, atol=1e-5)
    assert torch.allclose(plain, shared, rtol=1e-4, atol=1e-5)
    whole, prefix, rest = computed
    assert (whole, prefix, rest) == (4 * 12, 7, 4 * 5)


def test_a_prefix_ends_before_the_first_token_that_predicts():
    ids_B_T, mask_B_T = padded(rows(sides()))
    assert prefix_length(ids_B_T, mask_B_T) == len(PREFIX) - 1
    later_B_T = mask_B_T.clone()
    later_B_T[:, len(PREFIX)] = False
    assert prefix_length(ids_B_T, later_B_T) == len(PREFIX)
    early_B_T = mask_B_T.clone()
    early_B_T[2, 3] = True
    assert prefix_length(ids_B_T, early_B_T) == 2


def test_equal_rows_keep_a_position_to_compute():
    ids_B_T, mask_B_T = padded(rows(sides()[:1] * 3))
    mask_B_T[:] = False
    assert prefix_length(ids_B_T, mask_B_T) == ids_B_T.shape[1] - 1


def test_rows_without_a_common_prefix_are_computed_whole():
    torch.manual_seed(0)
    model = MODELS["llama"]().eval()
    others = [Conversation(token_ids=(n, *range(9)), mask=(0,) * 8 + (1, 1)) for n in range(3)]
    ids_B_T, mask_B_T = padded(rows(others))
    kept = [
        score(model, ids_B_T, mask_B_T, temperature=1.0, shares=shares)[0]
        for shares in (False, True)
    ]
    assert torch.equal(*kept)


@pytest.mark.parametrize(
    "model",
    [
        lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)),
        lambda: MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1)),
    ],
    ids=["window", "state"],
)
def test_a_model_that_forgets_positions_shares_nothing(model: Callable[[], PreTrainedModel]):
    assert not can_share(model())


def test_a_shared_prefix_counts_once_in_a_micro_batch():
    many = rows(sides() * 3)
    alone = list(micro_batches(many, 40))
    shared = list(micro_batches(many, 40, shares=True))
    assert len(shared) < len(alone)
    assert sorted(map(id, (row for pack in shared for row in pack))) == sorted(map(id, many))
    for pack in shared:
        longest = max(row.length for row in pack)
        assert len(PREFIX) - 1 + len(pack) * (longest - len(PREFIX) + 1) <= 40


def test_a_step_shares_prefixes_and_is_repeatable(tmp_path: Path):
    from coevolve.learning.policy import Policy
    from protocols.config import PolicyConfig
    from tests.learning import small_model

    policy = Policy(PolicyConfig(model=str(small_model(tmp_path)), train="lora"), tmp_path)
    assert policy.shares_prefixes
    ids_B_T, mask_B_T = padded(rows(sides()))
    once, again = (policy.logprobs(ids_B_T, mask_B_T, temperature=1.0)[0] for _ in range(2))
    assert torch.equal(once, again)
