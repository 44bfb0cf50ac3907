from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import GraniteConfig, GraniteForCausalLM, PreTrainedModel

from coevolve.learning.scoring import score
from coevolve.models.load import read_model
from protocols.errors import LearnerError
from tests.learning import small_model

IDS_B_T = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 6, 5, 0, 0], [4, 4, 4, 0, 0, 0, 0]])
MASK_B_T = torch.tensor(
    [[0, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 1, 0, 0], [0, 0, 1, 0, 0, 0, 0]], dtype=torch.bool
)
TWO_TOKENS = 2 * 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedModel:
    return read_model(small_model(tmp_path_factory.mktemp("model")))


def gradients(model: PreTrainedModel, loss: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
    model.zero_grad()
    loss().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_chunks_give_the_plain_logprobs_entropies_and_gradients(model: PreTrainedModel):
    def plain() -> tuple[torch.Tensor, torch.Tensor]:
        logprobs_B_T_V = (model(input_ids=IDS_B_T).logits[:, :-1] / 0.7).log_softmax(-1)
        chosen_B_T = MASK_B_T[:, 1:]
        logprobs_N_V = logprobs_B_T_V[chosen_B_T]
        targets_N = IDS_B_T[:, 1:][chosen_B_T]
        entropies_N = -(logprobs_N_V.exp() * logprobs_N_V).sum(-1)
        return logprobs_N_V[torch.arange(len(targets_N)), targets_N], entropies_N

    def chunked() -> tuple[torch.Tensor, torch.Tensor]:
        return score(model, IDS_B_T, MASK_B_T, temperature=0.7, logits_at_once=TWO_TOKENS)

    for found_N, expected_N in zip(chunked(), plain(), strict=True):
        assert torch.allclose(found_N, expected_N, rtol=0, atol=1e-6)
    weights_N = torch.linspace(-1, 2, int(MASK_B_T.sum()))
    found = gradients(model, lambda: (weights_N * chunked()[0]).sum())
    expected = gradients(model, lambda: (weights_N * plain()[0]).sum())
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_chunks_carry_no_gradient_to_entropies(model: PreTrainedModel):
    _, entropies_N = score(model, IDS_B_T, MASK_B_T, temperature=1.0, logits_at_once=TWO_TOKENS)
    assert not entropies_N.requires_grad


def test_a_micro_batch_without_written_tokens_has_no_logprobs(model: PreTrainedModel):
    nothing_B_T = torch.zeros_like(MASK_B_T)
    for limit in (TWO_TOKENS, 2**20):
        logprobs_N, entropies_N = score(
            model, IDS_B_T, nothing_B_T, temperature=1.0, logits_at_once=limit
        )
        assert logprobs_N.numel() == entropies_N.numel() == 0


def test_a_model_that_scales_its_logits_is_refused_where_chunks_are_needed(tmp_path: Path):
    torch.manual_seed(0)
    config = GraniteConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        logits_scaling=0.1,
        initializer_range=0.5,
    )
    GraniteForCausalLM(config).save_pretrained(tmp_path)
    scaling = read_model(tmp_path)
    score(scaling, IDS_B_T, MASK_B_T, temperature=1.0)
    with pytest.raises(LearnerError, match="GraniteForCausalLM"):
        score(scaling, IDS_B_T, MASK_B_T, temperature=1.0, logits_at_once=TWO_TOKENS)
