"""What earlier explorations of a run covered, as the journal stood at any point of it.

Counts tool sequences: those of explorations, as far as these are divided into turns, and those of
the turns of candidates. A brief carries them, so that a synthesizer can look where it has not been.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from coevolve.environments.tools.synthesis.brief import Precedent
from coevolve.environments.tools.task import read_body
from coevolve.journal.codec import decode_as
from coevolve.journal.paging import PAGE
from protocols.evolution import Candidate, Exploration
from protocols.interfaces import Reader
from protocols.rollouts import Action

Tools = tuple[str, ...]

MOST_CALLS = 4
"""Longer sequences are too many to count."""


@dataclass
class _Seen:
    """The sequences of one kind of record, each record with its place in the journal."""

    read: int = 0
    sequences: list[int] = field(default_factory=list[int])
    tools: list[Tools] = field(default_factory=list[Tools])

    def add(self, sequence: int, found: Iterable[Tools]) -> None:
        """Remember what one record holds."""
        for tools in found:
            self.sequences.append(sequence)
            self.tools.append(tools)

    def before(self, sequence: int) -> Counter[Tools]:
        """Count what records before ``sequence`` hold."""
        return Counter(self.tools[: bisect_right(self.sequences, sequence)])


class Precedents:
    """Follows the explorations and candidates of a journal."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._explored = _Seen()
        self._described = _Seen()

    async def before(self, sequence: int) -> tuple[Precedent, ...]:
        """Return what the journal told before ``sequence``, in the order of the tools."""
        await self._follow()
        explored, described = self._explored.before(sequence), self._described.before(sequence)
        return tuple(
            Precedent(tools=tools, explored=explored[tools], described=described[tools])
            for tools in sorted(explored | described)
        )

    async def _follow(self) -> None:
        while page := await self._reader.scan("exploration", self._explored.read, PAGE):
            for record in page:
                steps = decode_as(record, Exploration).steps
                self._explored.add(record.sequence, _by_turn(steps))
            self._explored.read = page[-1].sequence
        while page := await self._reader.scan("candidate", self._described.read, PAGE):
            for record in page:
                turns = read_body(decode_as(record, Candidate).body).turns
                self._described.add(record.sequence, (_tools(turn.reference) for turn in turns))
            self._described.read = page[-1].sequence


def _by_turn(steps: Sequence[Action]) -> Iterable[Tools]:
    """Yield the tools of each turn's calls that succeeded; turn 0 is looking around."""
    for turn, actions in groupby(steps, key=attrgetter("turn")):
        tools = _tools(action.text for action in actions if not action.failed)
        if turn > 0 and 0 < len(tools) <= MOST_CALLS:
            yield tools


def _tools(calls: Iterable[str]) -> Tools:
    return tuple(call.partition("(")[0].strip() for call in calls)
