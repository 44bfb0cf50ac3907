"""Patterns in rollouts that write code: APIs, their order, and errors."""

import re
from collections import Counter
from collections.abc import Container, Sequence
from itertools import pairwise

from coevolve.environments.appworld.blocks import UNREADABLE, apis_in
from coevolve.environments.tools.patterns import MASKED_CHARS, QUOTED, shortened
from coevolve.signals.history import PatternKey
from protocols.rollouts import Action

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def count_apis(
    actions: Sequence[Action], tools: Container[str], counts: Counter[PatternKey]
) -> None:
    """Add the APIs that one rollout's blocks name, their order, and its errors to the counts.

    Only names in ``tools``, as ``app.api``, count as APIs.
    """
    named: list[str] = []
    for action in actions:
        try:
            named += [name for name in apis_in(action.text) if name in tools]
        except ValueError:
            counts["error_class", UNREADABLE] += 1
            continue
        if action.failed:
            counts["error_class", error_class(action.result)] += 1
    for name in named:
        counts["tool", name] += 1
    for first, second in pairwise(named):
        counts["tool_bigram", f"{first} > {second}"] += 1


def error_class(observation: str) -> str:
    """Return the last line of the observation of a failed block, with its values masked."""
    lines = observation.strip().splitlines() or [""]
    # The engine's errors end with the body of a response, whose message says most.
    words = next((line for line in reversed(lines) if line.strip(" {}[]")), "")
    text = _NUMBER.sub("#", QUOTED.sub("*", words.strip()[:MASKED_CHARS]))
    return shortened(text)
