"""Audits the journal of a run: nothing lost, nothing done twice.

Each rule is a promise of the run, whatever process was killed. A run may be audited while it works;
what it has asked for and not answered yet is then open, and no fault. Once it has finished, every
rollout request has an answer, and every group was trained on or discarded.

Retention deletes the oldest rollouts, and then the requests that are older than every rollout that
is left (`coevolve.journal.retention`). So where records were deleted, the books say nothing about
answers to requests that are older than the oldest one left, or about missing answers to requests
that are older than the oldest answer left. Requests of probes go as well, the oldest first, and
each is newer than its candidate. So the books say nothing about reports of probes of candidates
that are older than the oldest of these requests left. The oldest steps go too, and the lineages of
old tasks, each from its candidate to what is about it. So then the books say nothing about verdicts
and settled signals, and the steps may begin later than with the first.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from coevolve.journal.codec import TOPICS, decode
from coevolve.journal.fold import in_order
from protocols.control import RunFinished, RunResumed, RunStarted, StateSnapshot
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    GroupSummary,
    Parked,
    ProbeReport,
    ProbeRequest,
    Signal,
    SignalSettled,
)
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import (
    Evaluation,
    GroupDiscarded,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    StepReport,
)
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task

MAX_NAMED = 5
"""Maximum number of things that a fault lists."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit counted and found."""

    records: int
    starts: int
    """Starts of the run, the first one included."""

    steps: int
    versions: int
    requests: int
    """Rollout requests."""

    open_requests: int
    """Rollout requests without an answer."""

    deleted: int
    """Records that retention deleted."""

    finished: bool
    faults: tuple[str, ...]
    """One sentence for each broken promise."""


async def audit(reader: Reader) -> Audit:
    """Read every record that a run has now, and return what was found."""
    books = Books()
    newest = [await reader.last(topic) for topic in TOPICS]
    through = max((record.sequence for record in newest if record), default=0)
    async for record in in_order(reader, TOPICS):
        if record.sequence <= through:
            books.enter(record.sequence, decode(record))
    return books.close()


class _Place(NamedTuple):
    """Where a rollout request or its answer stands."""

    sequence: int
    number: tuple[int, int]
    """The request's group and index. Requests are written in this order."""

    @classmethod
    def of(cls, sequence: int, message: RolloutRequest | Rollout | FailedRollout) -> "_Place":
        return cls(sequence, (message.group, message.index))


NEVER = (sys.maxsize, 0)
"""A number that no request reaches."""


class Books:
    """The accounts of a run; `enter` every record in order, then `close`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._once: dict[str, Counter[Hashable]] = {}
        self._groups: set[Hashable] = set()
        self._requested: dict[Hashable, _Place] = {}
        self._answered: dict[Hashable, _Place] = {}
        """Rollout requests, and answers to such requests, by their keys."""

        self._proposed: dict[str, int] = {}
        """The sequence of each candidate."""

        self._probed: dict[Hashable, str] = {}
        """Reported probe -> its candidate."""

        self._first_probe = sys.maxsize
        """The sequence of the oldest request of a probe that is there."""

        self._scored: dict[Hashable, int] = {}
        """Reported score -> its version."""

        self._first_scored = sys.maxsize
        """The oldest version of which a request for a score is there."""

        self._steps: list[int] = []
        self._versions: list[int] = []
        self._last = 0
        self._snapshots: dict[str, list[int]] = {}
        """Numbers of the snapshots that are there, by part."""

        self._finished = False

    def enter(self, sequence: int, message: Message) -> None:
        """Add the record of a sequence."""
        self._last = sequence
        self._counts[type(message).__name__] += 1
        for account, key in _entries(message):
            self._once.setdefault(account, Counter())[key] += 1
        match message:
            case RolloutRequest(group_id=group_id):
                self._groups.add(group_id)
                self._requested[group_id, message.index] = _Place.of(sequence, message)
            case Rollout() | FailedRollout():
                self._answered[message.group_id, message.index] = _Place.of(sequence, message)
            case StepReport(step=step):
                self._steps.append(step)
            case PolicyVersion(version=version, is_milestone=is_milestone):
                # A stop makes the newest version a milestone, in a second record.
                if not (is_milestone and self._versions[-1:] == [version]):
                    self._versions.append(version)
            case RunFinished() | RunResumed():
                self._finished = isinstance(message, RunFinished)
            case StateSnapshot(part=part, number=number):
                self._snapshots.setdefault(part, []).append(number)
            case _:
                self._enter_answer(sequence, message)

    def _enter_answer(self, sequence: int, message: Message) -> None:
        match message:
            case Candidate(candidate_id=candidate_id):
                self._proposed[candidate_id] = sequence
            case ProbeRequest():
                self._first_probe = min(self._first_probe, sequence)
            case ProbeReport(probe_id=probe_id, candidate_id=candidate_id):
                self._probed[probe_id] = candidate_id
            case ScoreRequest(version=version):
                self._first_scored = min(self._first_scored, version)
            case ScoreReport(version=version, task_id=task_id):
                self._scored[version, task_id] = version
            case _:
                pass

    def close(self) -> Audit:
        """Return the counts, and what is wrong with them."""
        opened = self._requested.keys() - self._answered.keys()
        superseded = sum(max(each) - len(each) for each in self._snapshots.values())
        deleted = self._last - self._counts.total() - superseded
        return Audit(
            records=self._counts.total(),
            starts=self._counts[RunStarted.__name__] + self._counts[RunResumed.__name__],
            steps=len(self._steps),
            versions=len(self._versions),
            requests=len(self._requested),
            open_requests=len(opened),
            deleted=deleted,
            finished=self._finished,
            faults=(
                *self._repeated(),
                *self._unasked(retained=bool(deleted)),
                *self._order(retained=bool(deleted)),
                *(self._left_open(opened, retained=bool(deleted)) if self._finished else ()),
            ),
        )

    def _of(self, account: str) -> Counter[Hashable]:
        return self._once.get(account, Counter())

    def _repeated(self) -> Iterable[str]:
        for account, seen in self._once.items():
            often = [key for key, count in seen.items() if count > 1]
            if often:
                yield f"{account}: {len(often)} recorded more than once: {_named(often)}"

    def _unasked(self, *, retained: bool) -> Iterable[str]:
        """Name the answers without a request; ``retained``: whether retention deleted records."""
        for answer, request in ANSWERS.items():
            if retained and answer in DROPPED_AFTER:
                continue
            found = set(self._of(answer)) - set(self._of(request))
            if retained and answer == "rollout":
                oldest = min((each.number for each in self._requested.values()), default=NEVER)
                found = {key for key in found if self._answered[key].number >= oldest}
            if retained and answer == "score report":
                found = {key for key in found if self._scored[key] > self._first_scored}
            if retained and answer == "probe report":
                found = {key for key in found if self._is_asked_lately(self._probed[key])}
            if found:
                yield f"{answer}: {len(found)} without a {request}: {_named(found)}"

    def _is_asked_lately(self, candidate_id: str) -> bool:
        """Return whether no request of the candidate's probes can have been deleted."""
        return self._proposed.get(candidate_id, 0) > self._first_probe

    def _order(self, *, retained: bool) -> Iterable[str]:
        first = self._steps[0] if retained and self._steps else 1
        if self._steps != list(range(first, first + len(self._steps))):
            needed = ", ".join(str(first + number) for number in range(3))
            yield f"steps: need to be {needed}, ... and are {_named(self._steps)}"
        if self._versions != sorted(set(self._versions)):
            yield f"policy versions: need to increase and are {_named(self._versions)}"

    def _left_open(self, opened: set[Hashable], *, retained: bool) -> Iterable[str]:
        if retained:
            oldest = min((each.sequence for each in self._answered.values()), default=self._last)
            opened = {key for key in opened if self._requested[key].sequence > oldest}
        if opened:
            yield f"rollout request: {len(opened)} without an answer: {_named(opened)}"
        unused = self._groups - set(self._of("group trained on or discarded"))
        if unused:
            yield f"group: {len(unused)} neither trained on nor discarded: {_named(unused)}"


ANSWERS: Mapping[str, str] = {
    "rollout": "rollout request",
    "score report": "score request",
    "probe report": "probe request",
    "settled signal": "signal",
    "verdict": "candidate",
}
"""Answer -> what has to be there before."""

DROPPED_AFTER = ("settled signal", "verdict")
"""Answers that retention deletes after what has to be there before."""


def _entries(message: Message) -> Iterable[tuple[str, Hashable]]:
    """Return the accounts that a message belongs to, and its key in each, which is unique there."""
    match message:
        case StepReport():
            return [
                ("step", message.step),
                *(("group trained on or discarded", each.group_id) for each in message.groups),
                *(
                    ("rollout trained on", each)
                    for group in message.groups
                    for each in group.sequences
                ),
            ]
        case GroupDiscarded():
            return [("group trained on or discarded", message.group_id)]
        case CandidateVerdict(outcome=Parked()):
            return []
        case _:
            account = _UNIQUE.get(type(message))
            return [(account.name, account.key(message))] if account else []


class _Account(NamedTuple):
    """An account of messages of which each has a key of its own."""

    name: str
    key: Callable[[Any], Hashable]


_UNIQUE: Mapping[type[Message], _Account] = {
    RolloutRequest: _Account("rollout request", attrgetter("group_id", "index")),
    Rollout: _Account("rollout", attrgetter("group_id", "index")),
    FailedRollout: _Account("rollout", attrgetter("group_id", "index")),
    PolicyVersion: _Account("policy version", attrgetter("version", "is_milestone")),
    ScoreRequest: _Account("score request", attrgetter("version", "task_id")),
    ScoreReport: _Account("score report", attrgetter("version", "task_id")),
    Evaluation: _Account("evaluation", attrgetter("version")),
    ProbeRequest: _Account("probe request", attrgetter("probe_id")),
    ProbeReport: _Account("probe report", attrgetter("probe_id")),
    GroupSummary: _Account("group summary", attrgetter("group_id")),
    Signal: _Account("signal", attrgetter("signal_id")),
    SignalSettled: _Account("settled signal", attrgetter("signal_id")),
    Candidate: _Account("candidate", attrgetter("candidate_id")),
    CandidateVerdict: _Account("verdict", attrgetter("candidate_id")),
    Task: _Account("task", attrgetter("task_id")),
}


def _named(keys: Iterable[Hashable]) -> str:
    names = [str(key) for key in keys]
    return ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
