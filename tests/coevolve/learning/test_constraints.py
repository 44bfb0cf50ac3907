"""A policy gradient within a grammar: over the allowed tokens only."""

import pytest
import torch
from transformers import PreTrainedModel

from coevolve.learning.constraints import Constraints
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.policy import padded
from coevolve.learning.rows import Conversation, Row
from coevolve.learning.scoring import score
from coevolve.models.load import read_model
from protocols.errors import GeneratorError
from protocols.generation import END, Grammar
from tests.learning import VOCABULARY, small_model

BRACKETS = Grammar(states=(((5, 1), (6, 2)), ((7, 0), (8, END)), ((9, 1),)))
"""5 or 6 first; after 5, and after 6 9, either 7, which starts again, or 8, which ends."""

ALL = frozenset(range(VOCABULARY))


def row(token_ids: list[int], mask: list[int], grammar: Grammar | None) -> Row:
    side = Conversation(
        token_ids=token_ids, mask=mask, rollout_logprobs=[0.0] * len(mask), grammar=grammar
    )
    return Row(sides=(side,), streams=())


WITHIN = row([1, 2, 6, 9, 7, 5, 8], [0, 0, 1, 1, 1, 1, 1], BRACKETS)
TWO_ANSWERS = row([1, 5, 8, 3, 6, 9, 8], [0, 1, 1, 0, 1, 1, 1], BRACKETS)
FREE = row([1, 2, 3], [0, 1, 1], None)
ALLOWED = {
    "within": [{5, 6}, {9}, {7, 8}, {5, 6}, {7, 8}],
    "two answers": [{5, 6}, {7, 8}, {5, 6}, {9}, {7, 8}],
    "free": [ALL, ALL],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedModel:
    return read_model(small_model(tmp_path_factory.mktemp("model")))


def sets(allowed_N_V: torch.Tensor) -> list[set[int]]:
    return [set(torch.nonzero(of_token)[:, 0].tolist()) for of_token in allowed_N_V]


def test_each_token_has_what_its_answer_could_go_on_with():
    allowed_N_V = Constraints(VOCABULARY).allowed([WITHIN, FREE, TWO_ANSWERS])
    assert allowed_N_V is not None
    assert sets(allowed_N_V) == [*ALLOWED["within"], *ALLOWED["free"], *ALLOWED["two answers"]]


def test_rows_without_a_grammar_are_not_constrained():
    given = imitated(Conversation(token_ids=[1, 2, 3], mask=[0, 1, 1]))
    for rows in ([FREE], [given], []):
        assert Constraints(VOCABULARY).allowed(rows) is None


def test_a_grammar_of_another_model_is_refused():
    foreign = Grammar(states=(((VOCABULARY, END),),))
    with pytest.raises(GeneratorError, match="it belongs to another model"):
        Constraints(VOCABULARY).allowed([row([1, 2], [0, 1], foreign)])


@pytest.mark.parametrize("logits_at_once", [2 * VOCABULARY, 2**20])
def test_probabilities_entropies_and_gradients_are_those_over_what_is_allowed(
    model: PreTrainedModel, logits_at_once: int
):
    rows = [WITHIN, TWO_ANSWERS, FREE]
    ids_B_T, mask_B_T = padded(rows)
    allowed_N_V = Constraints(VOCABULARY).allowed(rows)
    logprobs_N, entropies_N = score(
        model,
        ids_B_T,
        mask_B_T,
        temperature=0.7,
        allowed_N_V=allowed_N_V,
        logits_at_once=logits_at_once,
    )
    weights_N = torch.linspace(-1, 2, len(logprobs_N))
    model.zero_grad()
    (weights_N * logprobs_N).sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]

    each_allowed = [*ALLOWED["within"], *ALLOWED["two answers"], *ALLOWED["free"]]
    logits_N_V = model(input_ids=ids_B_T).logits[:, :-1][mask_B_T[:, 1:]] / 0.7
    targets = ids_B_T[:, 1:][mask_B_T[:, 1:]].tolist()
    expected: list[torch.Tensor] = []
    for logits_V, allowed, target, entropy in zip(
        logits_N_V, each_allowed, targets, entropies_N, strict=True
    ):
        among = sorted(allowed)
        logprobs = logits_V[among].log_softmax(-1)
        expected.append(logprobs[among.index(target)])
        assert float(entropy) == pytest.approx(
            float(-(logprobs.exp() * logprobs).sum().detach()), abs=1e-5
        )
    assert torch.allclose(logprobs_N, torch.stack(expected), rtol=0, atol=1e-5)
    model.zero_grad()
    (weights_N * torch.stack(expected)).sum().backward()
    wanted = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert len(found) == len(wanted)
    for mine, other in zip(found, wanted, strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_the_only_word_that_is_allowed_has_no_gradient(model: PreTrainedModel):
    forced = row([1, 2, 5], [0, 0, 1], Grammar(states=(((5, END),),)))
    ids_B_T, mask_B_T = padded([forced])
    allowed_N_V = Constraints(VOCABULARY).allowed([forced])
    logprobs_N, entropies_N = score(
        model, ids_B_T, mask_B_T, temperature=1.0, allowed_N_V=allowed_N_V
    )
    assert logprobs_N.tolist() == entropies_N.tolist() == [0.0]
    model.zero_grad()
    logprobs_N.sum().backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)
