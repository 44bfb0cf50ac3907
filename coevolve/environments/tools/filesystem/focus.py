"""What a walk is to try: the tools that a brief points to, drawn out to errands.

A pattern names its tools. A flagged task points to the tools of the turn in which its attempts
failed, above all to those that attempts used which got through it. Without a signal any tool is as
good as another.

Errands favour calls that build on one another: an errand of one tool is drawn out by tools whose
calls it can use, or which can use its own, as far as the tools' documents say. What makes a folder
serves what wants one; what shows a text serves what writes one; another place serves everything.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coevolve.environments.tools.filesystem.coverage import Coverage
from coevolve.environments.tools.filesystem.explorer import Chain
from coevolve.environments.tools.filesystem.manual import Tool
from coevolve.environments.tools.filesystem.slots import pick
from protocols.evolution import OnPattern, OnTask
from protocols.synthesis import Anything, Attempt, Brief

MAX_CALLS = 3
"""Of one errand."""

_FOCUSED_SHARE = 0.2
"""Of the errands after a walk's first, which is focused always."""


_ALONE_SHARE = 0.6
"""Of the errands with a single tool for focus, those that use no other."""

_SEARCHED_SHARE = 0.5
"""Of the places that an errand goes to, those that it searches for first."""


def focus_of(brief: Brief, tools: Mapping[str, Tool]) -> tuple[Chain, ...]:
    """Return what the brief points to, each an errand or the core of one; empty for anything."""
    match brief.about:
        case OnPattern(kind=kind, pattern=pattern):
            named = _named(pattern, tools)[: 2 if kind == "tool_bigram" else 1]
            return (named,) if named else ()
        case OnTask():
            return _missed(brief.attempts, tools)
        case Anything():
            return ()


@dataclass(frozen=True)
class Planner:
    """Chooses errands: where the focus leaves a choice, what is covered least."""

    tools: Mapping[str, Tool]
    coverage: Coverage
    rng: np.random.Generator

    def errands(self, focus: Sequence[Chain], count: int) -> tuple[Chain, ...]:
        """Return ``count`` errands; the first has the focus, the others seldom."""
        return tuple(
            self._drawn_out(pick(self.rng, focus))
            if focus and (number == 0 or self.rng.random() < _FOCUSED_SHARE)
            else self._any()
            for number in range(count)
        )

    def followed(self, focus: Sequence[Chain]) -> tuple[Chain, ...]:
        """Return what of the focus is to be followed; nothing where there is plenty of all."""
        return tuple(chain for chain in focus if self.coverage.wants(self.rng, chain))

    @cached_property
    def _links(self) -> tuple[Chain, ...]:
        """Pairs of tools of which one can use what the other leaves behind, by kind of link.

        A file that was just made is empty: it serves what writes into one.
        """
        tools = tuple(self.tools.values())
        return tuple(
            (lead.name, user.name)
            for serves in _SERVES
            for lead in tools
            for user in tools
            if serves(lead, user)
        )

    def _any(self) -> Chain:
        """Return an errand of a single tool or of a link."""
        return self._one_of([*((name,) for name in self.tools), *self._links])

    def _drawn_out(self, core: Chain) -> Chain:
        """Return ``core``, or an errand around it."""
        if len(core) > 1:
            return self._one_of([core])
        if self.rng.random() < _ALONE_SHARE:
            return core
        tool = next(iter(core))
        return self._one_of([core, *(pair for pair in self._links if tool in pair)])

    def _one_of(self, chains: Sequence[Chain]) -> Chain:
        completed = [each for chain in chains for each in self._completed(chain)]
        return self.coverage.pick(self.rng, completed)

    def _completed(self, chain: Chain) -> list[Chain]:
        """Go on from a place that was searched for, or search for it, where calls are left."""
        used = [self.tools[name] for name in chain]
        if len(used) == 1 or len(used) >= MAX_CALLS:
            return [chain]
        if used[-1].moves and used[-2].locates:
            files = [name for name, tool in self.tools.items() if tool.wants("file")]
            return [(*chain, name) for name in files]
        if used[0].moves and used[1].wants("file") and self.rng.random() < _SEARCHED_SHARE:
            return [(name, *chain) for name, tool in self.tools.items() if tool.locates]
        return [chain]


def _named(text: str, tools: Mapping[str, Tool]) -> Chain:
    return tuple(word for word in re.findall(r"[A-Za-z_]+", text) if word in tools)


def _missed(attempts: Sequence[Attempt], tools: Mapping[str, Tool]) -> tuple[Chain, ...]:
    """Return the calls that got attempts through the turn where others failed."""
    failed = [attempt for attempt in attempts if not attempt.succeeded]
    if not failed:
        return tuple((name,) for name in sorted(_used(attempts, None, tools)))
    turn = Counter(attempt.turns_passed for attempt in failed).most_common(1)[0][0]
    through = [attempt for attempt in attempts if attempt.turns_passed > turn]
    stuck = [attempt for attempt in failed if attempt.turns_passed == turn]
    tried = _used(stuck, turn, tools)
    ways = Counter(chain for each in through if (chain := _chain(each, turn, tools)))
    missed = [chain for chain, _ in ways.most_common() if set(chain) - tried]
    return tuple(missed or ways or ((name,) for name in sorted(tried)))


def _used(attempts: Iterable[Attempt], turn: int | None, tools: Mapping[str, Tool]) -> set[str]:
    return {tool for attempt in attempts for tool in _chain(attempt, turn, tools, most=None)}


def _chain(
    attempt: Attempt, turn: int | None, tools: Mapping[str, Tool], most: int | None = MAX_CALLS
) -> Chain:
    """Return the tools that an attempt used in a turn, or in all, without calls that failed."""
    called = (
        action.text.partition("(")[0].strip()
        for action in attempt.actions
        if turn in (None, action.turn) and not (action.failed and most)
    )
    return tuple(name for name in called if name in tools)[:most]


def _writes_into_it(lead: Tool, user: Tool) -> bool:
    return lead.makes == "file" and user.wants("file") and user.wants("text")


def _puts_into_it(lead: Tool, user: Tool) -> bool:
    return lead.makes == "folder" and user.wants("folder", "target")


def _copies_it(lead: Tool, user: Tool) -> bool:
    return lead.shows and user.wants("text")


def _goes_there(lead: Tool, user: Tool) -> bool:
    return lead.locates and user.moves


def _works_there(lead: Tool, user: Tool) -> bool:
    return lead.moves and not user.moves and not user.locates


_SERVES = (_writes_into_it, _puts_into_it, _copies_it, _goes_there, _works_there)
"""Whether one tool can use what the other leaves behind, by kind of link."""
