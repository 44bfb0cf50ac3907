"""Cells: the pairs of requests that follow each other in a conversation.

A request counts by the tools that its reference calls. Every eighth pair of different requests,
chosen by its digest, is for held-out tasks alone in environments that hold out cells: success on
tasks with such a pair shows whether the policy combines what it has only met apart.
"""

import hashlib
from itertools import pairwise

from coevolve.environments.tools.task import ToolTask

_SHARE = 8
"""One pair in this number is held out."""

JOIN = "+"

NO_TOOL = "none"
"""Stands for the tools of a turn without calls."""


def tools_by_turn(body: ToolTask) -> tuple[str, ...]:
    """Return the tools of each turn in the order of their calls, joined by `JOIN`."""
    return tuple(
        JOIN.join(call.partition("(")[0].strip() for call in turn.reference) or NO_TOOL
        for turn in body.turns
    )


def parts_of(tools: str) -> tuple[str, ...]:
    """Return what a turn's joined tools have in common with others: each tool, and each pair."""
    called = tools.split(JOIN)
    return (*called, *map(JOIN.join, pairwise(called)))


def held_out_pair(body: ToolTask) -> str:
    """Return the task's first pair that is for held-out tasks alone; empty if it has none."""
    for one, other in pairwise(tools_by_turn(body)):
        pair = f"{one}, then {other}"
        if one != other and hashlib.sha256(pair.encode()).digest()[0] % _SHARE == 0:
            return pair
    return ""
