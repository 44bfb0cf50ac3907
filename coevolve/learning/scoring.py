"""Computes a model's log-probabilities of tokens, without all logits in memory at once.

Letters: B rows, T positions (padded on the right), K of them that have logits, N tokens that the
policy wrote, C tokens of one chunk, H hidden size, V vocabulary.

If a grammar restricted the answers, probabilities are over the allowed tokens, like those of the
engine (`protocols.generation.Generation`).

Logits are computed only for positions at which some row predicts a written token, a small number of
them at once. A row of 8k tokens with a vocabulary of 150k would take 5 GB, several times over. A
large number is therefore computed chunk by chunk, and recomputed chunk by chunk in the backward
pass, so that memory holds one chunk at a time. Both ways agree to 1e-6, but not in every bit,
because the head's gradient sums over tokens in another order. Only the micro-batch determines the
way, so a step is repeatable.

What all rows begin with is computed once (`coevolve.learning.shared_prefix`).
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any, cast

import torch
from peft import PeftModel
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, PreTrainedModel

from coevolve.learning.shared_prefix import Prefix, cached, plain_model, prefix_cache, saved
from protocols.errors import LearnerError

LOGITS_AT_ONCE = 2**26
"""Maximum number of logits in memory at once: 256 MB in float32, and about four times that with the
data that a backward pass keeps."""


def score(
    model: PreTrainedModel | PeftModel,
    ids_B_T: torch.Tensor,
    mask_B_T: torch.Tensor,
    *,
    temperature: float,
    allowed_N_V: torch.Tensor | None = None,
    logits_at_once: int = LOGITS_AT_ONCE,
    shares: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (logprobs_N, entropies_N) of the masked tokens, row by row, in float32.

    ``allowed_N_V`` is boolean; None allows everything. A row's first token has no prediction, so
    its mask is ignored. The entropies have no gradient. ``shares`` says that the model can compute
    what rows begin with once.

    Raises LearnerError if there are too many logits to compute at once and the model changes the
    output of its head.
    """
    inputs_B_T, chosen_B_T = ids_B_T[:, :-1], mask_B_T[:, 1:]
    targets_N = ids_B_T[:, 1:][chosen_B_T]
    cache: DynamicCache | None = None
    both = cast("list[list[list[int]]]", [ids_B_T.tolist(), mask_B_T.tolist()]) if shares else []
    prefix = Prefix().joined(zip(*both, strict=True)).length
    if saved(prefix, *inputs_B_T.shape):
        cache = prefix_cache(model, inputs_B_T[:1, :prefix], len(inputs_B_T))
        inputs_B_T, chosen_B_T = inputs_B_T[:, prefix:], chosen_B_T[:, prefix:]
    vocabulary = int(cast("Any", model.config).vocab_size)
    kept_K = chosen_B_T.any(0).nonzero()[:, 0]
    if len(inputs_B_T) * len(kept_K) * vocabulary <= logits_at_once:
        logits_B_K_V = _forward(model, inputs_B_T, cache, kept_K).logits
        logits_N_V = logits_B_K_V[chosen_B_T[:, kept_K]]
        return _score_logits(logits_N_V, targets_N, allowed_N_V, temperature)
    head, hidden_B_T_H = _head_and_hidden(model, inputs_B_T, cache)
    hidden_N_H = hidden_B_T_H[chosen_B_T]
    size = max(1, logits_at_once // vocabulary)
    chunks = torch.split(targets_N, size)
    allowed = [None] * len(chunks) if allowed_N_V is None else torch.split(allowed_N_V, size)
    parts = [
        cast(
            "tuple[torch.Tensor, torch.Tensor]",
            checkpoint(
                _score_hidden,
                head,
                hidden_C_H,
                targets_C,
                allowed_C_V,
                temperature,
                use_reentrant=False,
                preserve_rng_state=False,
            ),
        )
        for hidden_C_H, targets_C, allowed_C_V in zip(
            torch.split(hidden_N_H, size), chunks, allowed, strict=True
        )
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _forward(
    model: PreTrainedModel | PeftModel,
    inputs_B_T: torch.Tensor,
    cache: DynamicCache | None,
    logits_to_keep: int | torch.Tensor,
) -> Any:
    taken = {"use_cache": False} if cache is None else cached(model, cache)
    return model(input_ids=inputs_B_T, logits_to_keep=logits_to_keep, **taken)


def _head_and_hidden(
    model: PreTrainedModel | PeftModel, inputs_B_T: torch.Tensor, cache: DynamicCache | None
) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the output head and its input, from a forward pass of the whole model.

    The function calls the model itself and requests only the logits of the last position, so that
    all its hooks (adapters, sharding) run as in any forward pass. The input is taken from the
    decoder, because a model that returns its hidden states keeps those of every layer.
    """
    plain = plain_model(model)
    head = cast("torch.nn.Module", plain.get_output_embeddings())
    found: list[torch.Tensor] = []

    def keep(_: object, __: object, output: Any) -> None:
        found.append(output.last_hidden_state)

    hook = plain.get_decoder().register_forward_hook(keep)
    try:
        output = _forward(model, inputs_B_T, cache, 1)
    finally:
        hook.remove()
    (hidden_B_T_H,) = found
    with torch.no_grad():
        same = torch.allclose(head(hidden_B_T_H[:, -1:]), output.logits, rtol=1e-2, atol=1e-2)
    if not same:
        raise LearnerError(
            f"a vocabulary as large as that of {type(plain).__name__} needs logits that are the "
            "output head of the last hidden state and nothing else, as in Qwen and Llama; this "
            "model scales or caps them; choose another policy.model"
        )
    return head, hidden_B_T_H


def _score_hidden(
    head: torch.nn.Module,
    hidden_C_H: torch.Tensor,
    targets_C: torch.Tensor,
    allowed_C_V: torch.Tensor | None,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _score_logits(head(hidden_C_H), targets_C, allowed_C_V, temperature)


def _score_logits(
    logits_N_V: torch.Tensor,
    targets_N: torch.Tensor,
    allowed_N_V: torch.Tensor | None,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    tempered_N_V = logits_N_V.float() / temperature
    if allowed_N_V is not None:
        tempered_N_V = tempered_N_V.masked_fill(~allowed_N_V, float("-inf"))
    logprobs_N_V = torch.log_softmax(tempered_N_V, dim=-1)
    logprobs_N = logprobs_N_V.gather(1, targets_N[:, None])[:, 0]
    with torch.no_grad():
        # Tokens that are not allowed have probability 0; 0 times infinity would be NaN.
        finite_N_V = (
            logprobs_N_V if allowed_N_V is None else logprobs_N_V.masked_fill(~allowed_N_V, 0.0)
        )
        entropies_N = -(logprobs_N_V.exp() * finite_N_V).sum(-1)
    return logprobs_N, entropies_N
