"""The state of candidates in the journal: probed, parked, admitted; and the existing tasks.

It is folded only from records, including the validator's own, so a new process has the same state
as the old one. A snapshot of it names the tasks of the index, whose bodies are read from the
journal. The index holds the synthesized tasks that were admitted last, up to ``most_tasks``, so
that the memory of a long run is bounded; a copy of an older one is not noticed. A new process has
those of them in the index that the journal still has. Which candidates have a verdict is asked of
the journal, for those at hand (`Ledger.recall`).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from coevolve.journal.codec import (
    CANDIDATES_BY_ID,
    TASKS_BY_ID,
    VERDICTS_BY_CANDIDATE,
    decode_as,
    topics_of,
)
from coevolve.journal.fold import fold
from coevolve.journal.snapshots import SPAN, Snapshots
from coevolve.validation.gates import NoIndex, TaskIndex
from coevolve.validation.wordings import Conflict, Wording, WordingBook
from protocols.control import DeadLetter, LetterAnswered
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    EnvironmentRecord,
    GroupSummary,
    Parked,
    ProbeRequest,
    Refused,
)
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord
from protocols.tasks import NEW_TASKS, Synthesized, Task

TOPICS = topics_of(Task, ProbeRequest, CandidateVerdict, GroupSummary)

FOUND_AT_ONCE = 256
"""Lookups in the journal that run at a time."""

FIRST = 8
"""Number of too-hard tasks admitted before the maximum share applies. The share of a few tasks says
little, and the first candidates are about things that the policy has never done."""


Wordings = Callable[[msgspec.Raw], Sequence[Wording]]
"""Returns the wordings of a sound task's body."""


def no_wordings(body: msgspec.Raw) -> Sequence[Wording]:
    """Return none."""
    del body
    return ()


class LedgerState(msgspec.Struct):
    """What `Ledger` remembers; the index holds these tasks and probes."""

    seeds: dict[str, None] = {}
    """Other tasks in the pool than synthesized ones."""

    made: dict[str, None] = {}
    """Synthesized tasks in the pool, the oldest first."""

    probes: dict[str, ProbeRequest] = {}
    """The last probe of each candidate without a final verdict."""

    asked: dict[str, int] = {}
    """Number of probes of each of these candidates."""

    since_verdict: dict[str, int] = {}
    """Number of those since it arrived or was parked."""

    resting: dict[str, int] = {}
    """Policy version at which a candidate was parked."""

    admitted: int = 0
    not_yet: int = 0
    """Admitted tasks that were too hard."""

    rollouts: int = 0
    """Number of the policy's rollouts in finished groups."""

    probe_rollouts: int = 0
    """Number of rollouts that probes were requested for."""


class Ledger:
    """The state on which the validator bases its decisions; call `follow` before each decision.

    It is a `coevolve.journal.snapshots.Piece`.

    Adding the newest records twice, in the same order, changes nothing.
    """

    pool: TaskIndex
    """Training tasks by task id; candidates being probed or parked by candidate id."""

    settings = None

    def __init__(
        self,
        reader: Reader,
        pool: TaskIndex,
        most_tasks: int,
        span: int = SPAN,
        wordings: Wordings = no_wordings,
    ) -> None:
        """Start empty; ``pool`` must be empty. ``span`` is that of the snapshots.

        ``most_tasks`` synthesized tasks are in the index at most; one of the quickstart takes about
        4.5 kB.
        """
        self._most_tasks = most_tasks
        self.snapshots = Snapshots(
            reader, "validator", TOPICS, lambda: Ledger(reader, NoIndex(), most_tasks, span), span
        )
        self.state = LedgerState()
        self._reader = reader
        self.through = 0
        """Sequence through which the journal's records are in it."""

        self._judged: set[str] = set()
        """Those of the recalled candidates that have a verdict."""

        self._expected: set[str] = set()
        """Candidates whose admission was counted before the journal had it."""

        self.pool = pool
        self._wordings = wordings
        self._book = WordingBook()
        """The wordings of everything in ``pool``; the seeds are trusted."""

    async def follow(self) -> None:
        """Add the journal's records since the last call."""
        if not self.through:
            await self._restore()
        self.through = await fold(self._reader, TOPICS, self.fold, self.through)

    async def recall(self, candidate_ids: Iterable[str]) -> None:
        """Find out which of these candidates have a verdict; forget it of all others."""
        found = await self._found(VERDICTS_BY_CANDIDATE, dict.fromkeys(candidate_ids))
        self._judged = {candidate_id for candidate_id, _ in found}

    def expect(self, messages: Iterable[Message]) -> None:
        """Add records that are about to be written, in this order; `follow` may add them again."""
        for message in messages:
            if isinstance(message, CandidateVerdict):
                self._expect_verdict(message)
            else:
                self.fold(message)

    @property
    def pieces(self) -> Sequence[object]:
        """Return itself: it is a whole state."""
        return (self,)

    @property
    def keeps(self) -> list[tuple[str, str]]:
        """The candidates that are being probed or parked."""
        return [(CANDIDATES_BY_ID, candidate_id) for candidate_id in self.state.probes]

    async def _restore(self) -> None:
        """Take up the newest snapshot, if there is one, and fill the index."""
        kept, through = await self.snapshots.restore()
        if not through:
            return
        self.through, self.state = through, kept.state
        self._expected.clear()
        seeds, made = self.state.seeds, self.state.made
        for task_id, record in await self._found(TASKS_BY_ID, (*seeds, *made)):
            self._add(task_id, decode_as(record, Task).body, trusted=task_id in seeds)
        for probe in self.state.probes.values():
            self._add(probe.candidate_id, probe.body)

    async def _found(self, index: str, keys: Iterable[str]) -> list[tuple[str, StoredRecord]]:
        found: list[tuple[str, StoredRecord]] = []
        wanted = tuple(keys)
        for start in range(0, len(wanted), FOUND_AT_ONCE):
            some = wanted[start : start + FOUND_AT_ONCE]
            finds = (self._reader.find(index, key, limit=1) for key in some)
            for key, records in zip(some, await asyncio.gather(*finds), strict=True):
                found += [(key, record) for record in records]
        return found

    def conflict(self, body: msgspec.Raw) -> Conflict | None:
        """Return how tasks or candidates in the pool contradict the body's wordings, if they do."""
        return self._book.conflict(self._wordings(body))

    def _add(self, key: str, body: msgspec.Raw, *, trusted: bool = False) -> None:
        self.pool.add(key, body)
        self._book.add(key, self._wordings(body), trusted=trusted)

    def _discard(self, key: str) -> None:
        self.pool.discard(key)
        self._book.discard(key)

    def knows(self, candidate_id: str) -> bool:
        """Return whether a recalled candidate has a verdict or is being probed."""
        return candidate_id in self._judged or candidate_id in self.state.probes

    def probe(self, candidate_id: str) -> ProbeRequest | None:
        """Return the last requested probe if the candidate has no final verdict, else None."""
        return self.state.probes.get(candidate_id)

    def probes_asked(self, candidate_id: str) -> int:
        """Return how many probes were ever requested."""
        return self.state.asked.get(candidate_id, 0)

    def probes_since_verdict(self, candidate_id: str) -> int:
        """Return how many probes were requested since the candidate arrived or was parked."""
        return self.state.since_verdict.get(candidate_id, 0)

    def parked(self) -> int:
        """Return how many candidates are parked."""
        return len(self.state.resting)

    def under_probe(self) -> int:
        """Return how many candidates are being probed."""
        return len(self.state.probes) - len(self.state.resting)

    def parked_until(self, version: int) -> Iterator[ProbeRequest]:
        """Yield the last probe of each candidate that was parked at ``version`` or before."""
        for candidate_id, parked in self.state.resting.items():
            if parked <= version:
                yield self.state.probes[candidate_id]

    def has_room_for_not_yet(self, share: float) -> bool:
        """Return whether one more too-hard task stays within ``share``."""
        return share > 0 and self.state.not_yet + 1 <= max(FIRST, share * (self.state.admitted + 1))

    def has_room_for_probes(self, rollouts: int, share: float) -> bool:
        """Return whether so many more probes stay within ``share`` of all rollouts so far."""
        probes = self.state.probe_rollouts + rollouts
        return probes <= share * (self.state.rollouts + probes)

    def fold(self, message: Message) -> None:
        match message:
            case GroupSummary():
                self.state.rollouts += message.rollouts if message.author == "policy" else 0
            case Task():
                made = isinstance(message.origin, Synthesized)
                if message.split == "train" and isinstance(message.origin, NEW_TASKS):
                    self._add(message.task_id, message.body, trusted=not made)
                if isinstance(message.origin, Synthesized):
                    self._discard(message.origin.candidate_id)
                    self._forget_the_oldest(message.task_id)
                elif message.split == "train" and isinstance(message.origin, NEW_TASKS):
                    self.state.seeds[message.task_id] = None
            case ProbeRequest():
                self._ask(message)
            case CandidateVerdict():
                self._count(message)
                self._expected.discard(message.candidate_id)
                self._conclude(message)
            case EnvironmentRecord() | DeadLetter() | LetterAnswered():
                pass
            case other:
                raise TypeError(f"the ledger does not take {type(other).__name__}")

    def _ask(self, probe: ProbeRequest) -> None:
        """Count a probe, unless it is the candidate's last one, which is added again."""
        candidate_id = probe.candidate_id
        last = self.state.probes.get(candidate_id)
        if last is None or last.probe_id != probe.probe_id:
            self.state.probe_rollouts += probe.rollouts
            for count in (self.state.asked, self.state.since_verdict):
                count[candidate_id] = count.get(candidate_id, 0) + 1
        self.state.probes[candidate_id] = probe
        self.state.resting.pop(candidate_id, None)
        self._add(candidate_id, probe.body)

    def _forget_the_oldest(self, newest: str) -> None:
        self.state.made[newest] = None
        while len(self.state.made) > self._most_tasks:
            oldest = next(iter(self.state.made))
            del self.state.made[oldest]
            self._discard(oldest)

    def _expect_verdict(self, verdict: CandidateVerdict) -> None:
        self._judged.add(verdict.candidate_id)
        self._count(verdict)
        if isinstance(verdict.outcome, Admitted):
            self._expected.add(verdict.candidate_id)
        self._conclude(verdict)

    def _count(self, verdict: CandidateVerdict) -> None:
        """Count an admission, unless it was counted when it was expected."""
        match verdict.outcome:
            case Admitted(label=label) if verdict.candidate_id not in self._expected:
                self.state.admitted += 1
                self.state.not_yet += label == "not_yet"
            case _:
                pass

    def _conclude(self, verdict: CandidateVerdict) -> None:
        self.state.since_verdict.pop(verdict.candidate_id, None)
        match verdict.outcome:
            case Parked() if verdict.candidate_id in self.state.probes:
                self.state.resting[verdict.candidate_id] = verdict.policy_version
            case Parked():
                pass  # without the snapshots, nothing knows its probe: the journal dropped it
            case Admitted() | Refused():
                self._close(verdict.candidate_id)

    def _close(self, candidate_id: str) -> None:
        if self.state.probes.pop(candidate_id, None):
            self._discard(candidate_id)
        self.state.asked.pop(candidate_id, None)
        self.state.resting.pop(candidate_id, None)
