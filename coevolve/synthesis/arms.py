"""The arms of the experiment: each gives a synthesizer other information for the same signal.

| arm        | about, instructions, attempts, first start                 | further starts |
|------------|------------------------------------------------------------|----------------|
| `full`     | the signal's own                                           | fresh          |
| `placebo`  | those of another task or pattern that was visited before   | fresh          |
| `coverage` | any cell, and no attempts; the first start is also fresh   | fresh          |
| `oracle`   | a cell that teaches; the same                              | fresh          |
| `random`   | none; the first start is also fresh                        | fresh          |

All arms have the same number of rounds and steps, and the placebo shows as many rollouts as the
signal has. The placebo is drawn uniformly among the tasks (or the patterns of the same kind) of all
visits before the signal that the journal has, except the signal's own. If there is no other, the
brief has no subject, as in `random`; nor has that of a cold start. The placebo separates the effect
of signals from that of synthesis; `coevolve.synthesis.cells` says what the other two are for.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import PAGE
from coevolve.synthesis.briefs import BriefContext, BriefWriter, Subject, seed_of
from coevolve.synthesis.cells import Cells
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.evolution import SKILL, GroupSummary, OnPattern, OnTask, Signal
from protocols.interfaces import Reader
from protocols.synthesis import Anything, Brief, Synthesis

NOTHING = Subject(about=Anything(), evidence=())


class ArmBriefs:
    """Writes the briefs of a run's arm."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        context: BriefContext,
        cells: Mapping[str, str],
    ) -> None:
        """Prepare the arm; ``cells``: as in `coevolve.environments.interface.Environment.cells`."""
        self._config = config
        self._writer = BriefWriter(config, reader=reader, context=context)
        self._visited = Visited(reader)
        imitates = config.learner.imitation.weight > 0
        self._cells = Cells(cells, imitates=imitates, reader=reader)

    async def brief(self, signal: Signal, sequence: int) -> Brief:
        """Return the brief for the signal at journal sequence ``sequence``.

        Raises LeakError if it would contain a held-out task.
        """
        return await self._writer.brief(signal, await self.subject(signal, sequence))

    async def practising(self, brief: Brief, synthesis: Synthesis) -> Synthesis:
        """Return the synthesis without the candidates that do not practise the brief's subject."""
        return await self._writer.practising(brief, synthesis)

    async def subject(self, signal: Signal, sequence: int) -> Subject:
        """Return the subject of that brief."""
        match self._config.arm:
            case "full":
                return Subject(about=signal.about, evidence=signal.evidence)
            case "placebo":
                return await self._placebo(signal, sequence)
            case "random":
                return NOTHING
            case "coverage":
                return _practise(self._cells.covered(self._rng(signal)))
            case "oracle":
                return _practise(await self._cells.teaching(self._rng(signal), sequence))
            case "uniform" | "static" as arm:
                raise ConfigError(
                    f"$.arm: {arm} synthesizes no tasks, but there is a signal to answer; choose "
                    "another one, or start no synthesizer"
                )

    async def _placebo(self, signal: Signal, sequence: int) -> Subject:
        if isinstance(signal.about, Anything):
            return NOTHING
        await self._visited.follow()
        others = self._visited.others(signal.about, sequence)
        if not others:
            return NOTHING
        about = self._rng(signal).choice(others)
        evidence = self._visited.evidence(about, sequence, len(signal.evidence))
        return Subject(about=about, evidence=evidence)

    def _rng(self, signal: Signal) -> random.Random:
        config = self._config
        return random.Random(seed_of(config.seed, signal.signal_id, config.arm))  # noqa: S311


def _practise(cell: str) -> Subject:
    return Subject(about=OnPattern(kind=SKILL, pattern=cell), evidence=())


class Visited:
    """The subjects of visits, and their rollouts, in journal order."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._read = 0
        self._evidence: dict[int, tuple[int, ...]] = {}
        self._visits: defaultdict[OnTask | OnPattern, list[int]] = defaultdict(list)
        """Sequences of the visits of each task and of each pattern, ascending."""

    async def follow(self) -> None:
        """Add the visits since the last call, and forget those that the journal dropped."""
        while page := await self._reader.scan(topic_of(GroupSummary), after=self._read, limit=PAGE):
            for record in page:
                self._add(record.sequence, decode_as(record, GroupSummary))
            self._read = page[-1].sequence
        oldest = await self._reader.scan(topic_of(GroupSummary), limit=1)
        self._forget(oldest[0].sequence if oldest else 0)

    def others(self, about: OnTask | OnPattern, before: int) -> Sequence[OnTask | OnPattern]:
        """Return other subjects of the same kind visited before the sequence, oldest first."""
        return [
            other
            for other, visits in self._visits.items()
            if visits[0] < before and other != about and _alike(other, about)
        ]

    def evidence(self, about: OnTask | OnPattern, before: int, count: int) -> tuple[int, ...]:
        """Return up to ``count`` rollouts of the newest visits before the sequence."""
        found: list[int] = []
        for visit in reversed(self._visits[about]):
            if len(found) >= count:
                break
            if visit < before:
                found.extend(self._evidence[visit])
        return tuple(found[:count])

    def _forget(self, before: int) -> None:
        if not any(visit < before for visit in islice(self._evidence, 1)):
            return
        self._evidence = {
            visit: rollouts for visit, rollouts in self._evidence.items() if visit >= before
        }
        for about, visits in list(self._visits.items()):
            self._visits[about] = [visit for visit in visits if visit >= before]
            if not self._visits[about]:
                del self._visits[about]

    def _add(self, sequence: int, visit: GroupSummary) -> None:
        """Store a visit, unless all of its rollouts failed."""
        if not visit.evidence:
            return
        self._evidence[sequence] = visit.evidence
        self._visits[OnTask(task_id=visit.task_id)].append(sequence)
        for found in visit.patterns:
            self._visits[OnPattern(kind=found.kind, pattern=found.pattern)].append(sequence)
        for each in visit.skills:
            self._visits[OnPattern(kind=SKILL, pattern=each.skill)].append(sequence)


def _alike(one: OnTask | OnPattern, other: OnTask | OnPattern) -> bool:
    if isinstance(one, OnPattern) and isinstance(other, OnPattern):
        return one.kind == other.kind
    return isinstance(one, OnTask) and isinstance(other, OnTask)
