"""The settings of the environment ``toolbox``."""

from typing import Annotated

import msgspec

from coevolve.environments.tools.toolbox.words import MAX_TOOLS
from protocols.numbers import Count, NonNegative, Seed

Cells = Annotated[int, msgspec.Meta(ge=0, le=2000)]


class ToolboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A domain of tools, links of two tools and chains of three, generated from a seed."""

    domain: Seed = 0
    """Seed of the domain: which links and chains there are, the mode of each link, and what is
    popular. Runs of one domain have the same held-out tasks."""

    tools: Annotated[int, msgspec.Meta(ge=3, le=MAX_TOOLS)] = 48
    """Number of tools; each is a cell."""

    links: Cells = 200
    """Number of cells of two tools; at most one for each ordered pair."""

    chains: Cells = 200
    """Number of cells of three tools, whose two links are cells too."""

    tail: Annotated[float, msgspec.Meta(ge=0.0, le=4.0)] = 1.0
    """How unequal the seeds and free exploration are: a tool's popularity is its rank to the power
    of minus this. 0: all are equal."""

    seeds: Count = 100
    """Maximum number of tasks that the run starts with, each of another cell."""

    held_out: Count = 1000
    """Maximum number of cells that are scored; more than there are means all."""

    demonstrations: NonNegative = 200
    """Steps of the supervised training that makes the initial policy, with 64 demonstrations each.
    Fewer leave it nothing to compare, more leave nothing to learn."""
