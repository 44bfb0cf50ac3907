"""The settings of the environment ``bfcl``."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import Count

BfclCategory = Literal["base", "miss_func", "miss_param", "long_context"]
"""BFCL's variants of the same 200 multi-turn conversations; see `bfcl.catalogue`."""


class BfclConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The multi-turn tasks of the Berkeley Function-Calling Leaderboard."""

    seeds: Count = 150
    """Tasks that the run starts with, at most as many as there are. (CoEvolve's N = 100.)"""

    held_out: Count = 240
    """Tasks of the held-out set, at most as many as there are, the same in every run."""

    categories: Annotated[tuple[BfclCategory, ...], msgspec.Meta(min_length=1)] = ("base",)
    """Categories of the benchmark that tasks are taken from."""

    split_seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """Which worlds are held out; runs that are compared need the same."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of the worlds that are held out: about so many of the tasks. 0.5 gives about 100 of 200
    on each side, as in AgentEvolver, on which CoEvolve builds."""
