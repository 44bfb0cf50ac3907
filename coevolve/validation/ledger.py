"""The state of candidates in the journal: probed, parked, admitted; and the existing tasks.

It is folded only from records, including the validator's own, so a new process has the same state
as the old one. Its index holds the `MOST_TASKS` synthesized tasks that were admitted last, so that
the memory of a long run is bounded; a copy of an older one is not noticed.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from coevolve.journal.codec import topics_of
from coevolve.journal.fold import fold
from coevolve.validation.gates import TaskIndex
from protocols.control import DeadLetter, LetterAnswered
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    EnvironmentRecord,
    Parked,
    ProbeRequest,
    Refused,
)
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.tasks import Continued, Synthesized, Task

TOPICS = topics_of(Task, ProbeRequest, CandidateVerdict)

MOST_TASKS = 10_000
"""Synthesized tasks in the index; one of the quickstart takes about 4.5 kB."""

FIRST = 8
"""Number of too-hard tasks admitted before the maximum share applies. The share of a few tasks says
little, and the first candidates are about things that the policy has never done."""


class Ledger:
    """The state on which the validator bases its decisions; call `follow` before each decision.

    Adding the newest records twice, in the same order, changes nothing.
    """

    pool: TaskIndex
    """Training tasks by task id; candidates being probed or parked by candidate id."""

    def __init__(self, reader: Reader, pool: TaskIndex, most_tasks: int = MOST_TASKS) -> None:
        """Start empty; ``pool`` must be empty."""
        self._most_tasks = most_tasks
        self._made: OrderedDict[str, None] = OrderedDict()
        """Synthesized tasks in the pool, the oldest first."""

        self._reader = reader
        self._through = 0
        self._judged: set[str] = set()
        self._probes: dict[str, ProbeRequest] = {}
        self._asked: dict[str, set[str]] = {}
        self._since_verdict: dict[str, set[str]] = {}
        self._resting: dict[str, int] = {}
        self._admitted: set[str] = set()
        self._not_yet: set[str] = set()
        self.pool = pool

    async def follow(self) -> None:
        """Add the journal's records since the last call."""
        self._through = await fold(self._reader, TOPICS, self._take_in, self._through)

    def expect(self, messages: Iterable[Message]) -> None:
        """Add records that are about to be written, in this order; `follow` may add them again."""
        for message in messages:
            self._take_in(message)

    def knows(self, candidate_id: str) -> bool:
        """Return whether the candidate has a verdict or is being probed."""
        return candidate_id in self._judged or candidate_id in self._probes

    def probe(self, candidate_id: str) -> ProbeRequest | None:
        """Return the last requested probe if the candidate has no final verdict, else None."""
        return self._probes.get(candidate_id)

    def probes_asked(self, candidate_id: str) -> int:
        """Return how many probes were ever requested."""
        return len(self._asked.get(candidate_id, ()))

    def probes_since_verdict(self, candidate_id: str) -> int:
        """Return how many probes were requested since the candidate arrived or was parked."""
        return len(self._since_verdict.get(candidate_id, ()))

    def under_probe(self) -> int:
        """Return how many candidates are being probed."""
        return len(self._probes) - len(self._resting)

    def parked_until(self, version: int) -> Iterator[ProbeRequest]:
        """Yield the last probe of each candidate that was parked at ``version`` or before."""
        for candidate_id, parked in self._resting.items():
            if parked <= version:
                yield self._probes[candidate_id]

    def has_room_for_not_yet(self, share: float) -> bool:
        """Return whether one more too-hard task stays within ``share``."""
        return share > 0 and len(self._not_yet) + 1 <= max(FIRST, share * (len(self._admitted) + 1))

    def _take_in(self, message: Message) -> None:
        match message:
            case Task():
                if message.split == "train" and not isinstance(message.origin, Continued):
                    self.pool.add(message.task_id, message.body)
                if isinstance(message.origin, Synthesized):
                    self.pool.discard(message.origin.candidate_id)
                    self._forget_the_oldest(message.task_id)
            case ProbeRequest(candidate_id=candidate_id, probe_id=probe_id):
                self._probes[candidate_id] = message
                self._asked.setdefault(candidate_id, set()).add(probe_id)
                self._since_verdict.setdefault(candidate_id, set()).add(probe_id)
                self._resting.pop(candidate_id, None)
                self.pool.add(candidate_id, message.body)
            case CandidateVerdict():
                self._conclude(message)
            case EnvironmentRecord() | DeadLetter() | LetterAnswered():
                pass
            case other:
                raise TypeError(f"the ledger does not take {type(other).__name__}")

    def _forget_the_oldest(self, newest: str) -> None:
        self._made[newest] = None
        if len(self._made) > self._most_tasks:
            oldest, _ = self._made.popitem(last=False)
            self.pool.discard(oldest)

    def _conclude(self, verdict: CandidateVerdict) -> None:
        self._judged.add(verdict.candidate_id)
        self._since_verdict.pop(verdict.candidate_id, None)
        match verdict.outcome:
            case Parked():
                self._resting[verdict.candidate_id] = verdict.policy_version
            case Admitted(label=label):
                self._admitted.add(verdict.candidate_id)
                if label == "not_yet":
                    self._not_yet.add(verdict.candidate_id)
                self._close(verdict.candidate_id)
            case Refused():
                self._close(verdict.candidate_id)

    def _close(self, candidate_id: str) -> None:
        self._probes.pop(candidate_id, None)
        self._asked.pop(candidate_id, None)
        self._resting.pop(candidate_id, None)
