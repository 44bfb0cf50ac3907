"""How the training data of a run evolved, folded from its journal for attach and the report.

The report folds all records; `coevolve.history.related` folds those about single tasks and signals.
Tables are keyed by the ids in the messages and joined when a caller asks, so an answer does not
depend on the order of records that were written at the same time. Of group summaries the journal
drops the oldest; `coevolve.history.group_totals` still counts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coevolve.history.group_totals import TaskGroups
from coevolve.history.histories import Lineage, SignalHistory, TaskHistory, Trained
from coevolve.journal.codec import topics_of
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    OnTask,
    ProbeReport,
    Signal,
    SignalSettled,
)
from protocols.journal import Message
from protocols.learning import StepReport
from protocols.tasks import NEW_TASKS, Synthesized, Task

TOPICS = topics_of(
    *(Task, GroupSummary, StepReport, Signal, SignalSettled, Exploration),
    *(Candidate, CandidateVerdict, ProbeReport),
)


class _Noted(NamedTuple):
    """The moment when a signal was recorded."""

    time_ns: int
    visits: int
    """Number of groups of the flagged task before."""


@dataclass
class LineageIndex:
    """The lineage of the records so far; `fold` takes each record once."""

    dropped: Mapping[str, TaskGroups] = field(default_factory=dict[str, TaskGroups])
    """Task id -> its groups whose summaries the journal dropped."""

    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    """All tasks that are drawn: seeds and synthesized ones."""

    signals: dict[str, Signal] = field(default_factory=dict[str, Signal])
    settled: dict[str, SignalSettled] = field(default_factory=dict[str, SignalSettled])
    explorations: dict[str, Exploration] = field(default_factory=dict[str, Exploration])
    candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    verdicts: dict[str, list[CandidateVerdict]] = field(
        default_factory=dict[str, list[CandidateVerdict]]
    )
    """Candidate id -> verdicts, oldest first. The newest counts."""

    probes: dict[str, list[ProbeReport]] = field(default_factory=dict[str, list[ProbeReport]])
    visits: dict[str, list[GroupSummary]] = field(default_factory=dict[str, list[GroupSummary]])
    """Task id -> groups that the journal has, oldest first. A group that continues a rollout counts
    for its first task."""

    trained: dict[str, list[Trained]] = field(default_factory=dict[str, list[Trained]])
    """Task id -> training steps that used it."""

    _noted: dict[str, _Noted] = field(default_factory=dict[str, _Noted])
    _explorations_of: dict[str, list[Exploration]] = field(
        default_factory=dict[str, list[Exploration]]
    )
    _candidates_of: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _tasks_of: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _signals_about: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _roots: dict[str, str] = field(default_factory=dict[str, str])
    """Task that continues a rollout -> the task that the rollout started with."""

    def fold(self, message: Message, time_ns: int = 0) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case Task() | GroupSummary() | StepReport():
                self._fold_training(message)
            case Signal() | SignalSettled() | Exploration() | Candidate():
                self._fold_synthesis(message, time_ns)
            case CandidateVerdict(candidate_id=candidate):
                self.verdicts.setdefault(candidate, []).append(message)
            case ProbeReport(candidate_id=candidate):
                self.probes.setdefault(candidate, []).append(message)
            case _:
                pass

    def signal_history(self, signal_id: str) -> SignalHistory:
        """Return the history of a signal. Raises KeyError if there is no such signal."""
        signal = self.signals[signal_id]
        noted = self._noted[signal_id]
        flagged = signal.about.task_id if isinstance(signal.about, OnTask) else ""
        visits = tuple(self.visits.get(flagged, ()))
        candidates = self._candidates_of.get(signal_id, ())
        return SignalHistory(
            signal=signal,
            time_ns=noted.time_ns,
            before=visits[: noted.visits],
            since=visits[noted.visits :],
            settled=self.settled.get(signal_id),
            explorations=tuple(self._explorations_of.get(signal_id, ())),
            candidates=tuple(self.candidates[candidate] for candidate in candidates),
            verdicts=self.newest_verdicts(signal_id),
            tasks=tuple(self.history(task) for task in self._tasks_of.get(signal_id, ())),
        )

    def newest_verdicts(self, signal_id: str) -> tuple[CandidateVerdict, ...]:
        """Return the newest verdict on each judged candidate of a signal."""
        candidates = self._candidates_of.get(signal_id, ())
        return tuple(self.verdicts[each][-1] for each in candidates if each in self.verdicts)

    def history(self, task_id: str) -> TaskHistory:
        """Return the history of a task. Raises KeyError if there is no such task."""
        task = self.tasks[task_id]
        origin = task.origin
        candidate_id = origin.candidate_id if isinstance(origin, Synthesized) else ""
        verdicts = self.verdicts.get(candidate_id)
        return TaskHistory(
            task=task,
            verdict=verdicts[-1] if verdicts else None,
            dropped=self.dropped.get(task_id) or TaskGroups(),
            visits=tuple(self.visits.get(task_id, ())),
            trained=tuple(self.trained.get(task_id, ())),
        )

    def lineage(self, task_id: str) -> Lineage:
        """Return the lineage of a task. Raises KeyError if there is no such task."""
        history = self.history(task_id)
        origin = history.task.origin
        candidate_id = origin.candidate_id if isinstance(origin, Synthesized) else ""
        signal_id = origin.signal_id if isinstance(origin, Synthesized) else ""
        candidate = self.candidates.get(candidate_id)
        return Lineage(
            history=history,
            signal=self.signal_history(signal_id) if signal_id in self.signals else None,
            exploration=self.explorations.get(candidate.exploration_id)
            if isinstance(candidate, Candidate)
            else None,
            candidate=candidate,
            verdicts=tuple(self.verdicts.get(candidate_id, ())),
            probes=tuple(self.probes.get(candidate_id, ())),
            signals=tuple(
                self.signal_history(signal) for signal in self._signals_about.get(task_id, ())
            ),
        )

    def listed_from(self) -> int | None:
        """Return the oldest version of the groups that are listed; None if none was dropped."""
        if not any(groups.groups for groups in self.dropped.values()):
            return None
        listed = (visit.version_max for visits in self.visits.values() for visit in visits)
        return min(listed, default=0)

    def _fold_training(self, message: Task | GroupSummary | StepReport) -> None:
        match message:
            case Task():
                self._fold_task(message)
            case GroupSummary(root=root):
                self.visits.setdefault(root, []).append(message)
            case StepReport(step=step, groups=groups):
                for group in groups:
                    trained = Trained(step=step, use=group.use)
                    root = self._roots.get(group.task_id, group.task_id)
                    self.trained.setdefault(root, []).append(trained)

    def _fold_task(self, task: Task) -> None:
        if not isinstance(task.origin, NEW_TASKS):
            self._roots[task.task_id] = task.origin.root
            return
        self.tasks[task.task_id] = task
        if isinstance(task.origin, Synthesized):
            self._tasks_of.setdefault(task.origin.signal_id, []).append(task.task_id)

    def _fold_synthesis(
        self,
        message: Signal | SignalSettled | Exploration | Candidate,
        time_ns: int,
    ) -> None:
        match message:
            case Signal(signal_id=signal_id, about=about):
                self.signals[signal_id] = message
                flagged = about.task_id if isinstance(about, OnTask) else ""
                self._noted[signal_id] = _Noted(time_ns, len(self.visits.get(flagged, ())))
                if isinstance(about, OnTask):
                    self._signals_about.setdefault(about.task_id, []).append(signal_id)
            case SignalSettled():
                self.settled[message.signal_id] = message
            case Exploration():
                self.explorations[message.exploration_id] = message
                self._explorations_of.setdefault(message.signal_id, []).append(message)
            case Candidate():
                self.candidates[message.candidate_id] = message
                self._candidates_of.setdefault(message.signal_id, []).append(message.candidate_id)
