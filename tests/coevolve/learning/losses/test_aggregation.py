import pytest

from coevolve.learning.losses import aggregation
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.objectives.dpo import Dpo
from coevolve.learning.rows import Conversation, Row, Stream
from protocols.objectives import Aggregation

LENGTHS = [4, 1, 3]
LOSSES = [[1.0, 2.0, 3.0, 4.0], [5.0], [6.0, 7.0, 8.0]]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("constant", 36 / 30),
        ("token_mean", 36 / 8),
        ("sequence_mean", (2.5 + 5 + 7) / 3),
    ],
)
def test_the_loss_of_a_batch_by_hand(rule: Aggregation, expected: float):
    normalizer = aggregation.of_batch(rule, LENGTHS, expected_tokens=30.0)
    total = sum(
        normalizer.scale(length) * loss
        for length, losses in zip(LENGTHS, LOSSES, strict=True)
        for loss in losses
    )
    assert total / normalizer.tokens == pytest.approx(expected)


def test_mini_batches_together_weigh_as_much_as_the_batch():
    normalizer = aggregation.of_batch("token_mean", LENGTHS, expected_tokens=30.0)
    assert normalizer.of_mini_batch(4).tokens == normalizer.tokens / 4


def test_given_rows_are_averaged_over_their_tokens_and_pairs():
    given = Conversation(token_ids=[1, 2, 3, 4], mask=[1, 0, 1, 1])
    pair = Row(sides=(given, given), streams=(Stream(component=Dpo(), targets="initial"),))
    normalizer = aggregation.of_rows([imitated(given), pair, imitated(given, 0.5), pair, pair])
    assert (normalizer.tokens, normalizer.rows, normalizer.scale(5)) == (4.0, 3.0, 1.0)


def test_a_batch_without_tokens_causes_no_division_by_zero():
    assert aggregation.of_batch("token_mean", [0], expected_tokens=30.0).tokens == 1.0
    assert aggregation.of_batch("sequence_mean", [], expected_tokens=30.0).scale(0) == 1.0
