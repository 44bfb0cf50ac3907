from collections import Counter

import pytest

from coevolve.learning.losses.imitation import imitated
from coevolve.learning.policy import micro_batches
from coevolve.learning.rows import Conversation, Row
from coevolve.learning.sharded.partition import share
from coevolve.learning.sharded.ranks import ALONE, Ranks


def rows_of(lengths: list[int]) -> list[Row]:
    return [
        imitated(Conversation(token_ids=[number] * length, mask=[1] * length))
        for number, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("lengths", [[], [5], [3, 9, 4, 4, 7, 12, 30, 2, 2, 2, 8]])
def test_every_row_goes_to_one_rank_and_all_ranks_have_as_many_micro_batches(
    lengths: list[int], count: int
):
    rows = rows_of(lengths)
    shares = [share(rows, 20, Ranks(rank=rank, count=count)) for rank in range(count)]
    assert len({len(packs) for packs in shares}) == 1
    dealt = Counter(id(row) for packs in shares for pack in packs for row in pack)
    assert dealt == Counter(id(row) for row in rows)


def test_ranks_have_about_as_many_tokens():
    rows = rows_of([20 + 7 * n % 50 for n in range(64)])
    tokens = [
        sum(row.length for pack in share(rows, 200, Ranks(rank=r, count=4)) for row in pack)
        for r in range(4)
    ]
    assert max(tokens) < 1.1 * min(tokens)


def test_one_rank_has_the_micro_batches_that_there_were_without_ranks():
    rows = rows_of([3, 9, 4, 7, 12, 2])
    assert share(rows, 20, ALONE) == list(micro_batches(rows, 20))
