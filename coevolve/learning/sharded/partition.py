"""Partitions the rows of an update among the ranks."""

from collections.abc import Sequence

from coevolve.learning.policy import micro_batches
from coevolve.learning.rows import Row
from coevolve.learning.sharded.ranks import Ranks


def share(
    rows: Sequence[Row], budget_tokens: int, ranks: Ranks, *, shares_prefixes: bool = False
) -> list[list[Row]]:
    """Return the micro-batches of this rank; every rank has the same number.

    Rows of similar length go to different ranks, which balances the work. If there are too few
    rows, the last micro-batches of a rank are empty. ``shares_prefixes`` is as
    ``shares`` of `micro_batches`.
    """
    ordered = sorted(rows, key=lambda row: row.length)
    shares = [
        list(micro_batches(ordered[rank :: ranks.count], budget_tokens, shares=shares_prefixes))
        for rank in range(ranks.count)
    ]
    mine = shares[ranks.rank]
    return mine + [[] for _ in range(max(map(len, shares)) - len(mine))]
