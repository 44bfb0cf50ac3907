"""The observer of groups of rollouts that write code."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import pairwise

from coevolve.environments.appworld.blocks import UNREADABLE, apis_in
from coevolve.environments.rewards_only import TaskObserver
from coevolve.signals.history import PatternKey
from protocols.config import RunConfig
from protocols.evolution import PatternCount
from protocols.rollouts import Action, Rollout


class CodeObserver(TaskObserver):
    """Observes the APIs that blocks name, besides rewards."""

    def __init__(self, config: RunConfig, tools: Sequence[str]) -> None:
        """Start empty; ``tools`` are the names of all APIs, as ``app.api``."""
        super().__init__(config, sorted(tools))
        self._tools = frozenset(tools)

    def patterns(self, rollouts: Sequence[Rollout]) -> tuple[PatternCount, ...]:
        return patterns_of((rollout.actions for rollout in rollouts), self._tools)


MAX_PATTERN_CHARS = 120
MASKED_CHARS = 1_000

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def patterns_of(
    rollouts: Iterable[Sequence[Action]], tools: Container[str]
) -> tuple[PatternCount, ...]:
    """Count the patterns in the blocks of some rollouts; ordered by kind and pattern.

    Only names in ``tools`` count as APIs.
    """
    counts: Counter[PatternKey] = Counter()
    for actions in rollouts:
        _count(actions, tools, counts)
    return tuple(
        PatternCount(kind=kind, pattern=pattern, count=count)
        for (kind, pattern), count in sorted(counts.items())
    )


def error_class(observation: str) -> str:
    """Return the last line of the observation of a failed block, with its values masked."""
    lines = observation.strip().splitlines() or [""]
    # The engine's errors end with the body of a response, whose message says most.
    words = next((line for line in reversed(lines) if line.strip(" {}[]")), "")
    text = _NUMBER.sub("#", _QUOTED.sub("*", words.strip()[:MASKED_CHARS]))
    return text if len(text) <= MAX_PATTERN_CHARS else f"{text[: MAX_PATTERN_CHARS - 1]}…"


def _count(actions: Sequence[Action], tools: Container[str], counts: Counter[PatternKey]) -> None:
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
