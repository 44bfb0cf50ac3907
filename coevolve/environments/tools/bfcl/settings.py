"""The settings of the environment ``bfcl``."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import Count, Seed

BfclCategory = Literal["base", "miss_func", "miss_param", "long_context"]
"""BFCL's variants of the same 200 multi-turn conversations; see `bfcl.catalogue`."""


class BfclConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The multi-turn tasks of the Berkeley Function-Calling Leaderboard."""

    seeds: Count = 150
    """Maximum number of tasks that the run starts with. (CoEvolve has N = 100.)"""

    held_out: Count = 240
    """Maximum number of held-out tasks; they are the same in every run."""

    categories: Annotated[tuple[BfclCategory, ...], msgspec.Meta(min_length=1)] = ("base",)
    """Categories of the benchmark that tasks are taken from."""

    split_seed: Seed = 0
    """Seed that decides which worlds are held out; use the same for runs that are compared."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of the worlds that are held out: exactly this share of their number, rounded, and so
    about that share of the tasks. 0.5 gives about 100 of 200 on each side, as in AgentEvolver, on
    which CoEvolve builds."""
