"""The history of a run: everything that its records say, for the report, the board and exports."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import msgspec

from coevolve.history.annotated_source import AnnotatedSource
from coevolve.history.costs import Costs
from coevolve.history.differences import Suspect, suspects
from coevolve.history.evolution_totals import EvolutionTotals
from coevolve.history.lineage import TOPICS as EVOLUTION_TOPICS
from coevolve.history.lineage import LineageIndex
from coevolve.history.progress import Progress
from coevolve.history.rollouts import NO_SAMPLE, Sample
from coevolve.history.series import RunSeries
from coevolve.history.timeline import TOPICS as TIMELINE_TOPICS
from coevolve.history.timeline import Timeline
from coevolve.validation.wordings import Wording
from protocols.capabilities import Capabilities, absent
from protocols.config import RunConfig
from protocols.evolution import Candidate, Gate, GroupSummary
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.tasks import Task, TaskText

TOPICS = tuple(dict.fromkeys((*TIMELINE_TOPICS, *EVOLUTION_TOPICS)))
"""Topics of single records that are shown; the totals have their own."""

NO_TOOL = "no call"


class Described(Protocol):
    """The part of a run's environment that a history uses."""

    capabilities: ClassVar[Capabilities]
    gate_order: ClassVar[Sequence[Gate]]

    withheld: ClassVar[str]
    """Why the contents of tasks may not be passed on, as a sentence; empty if they may."""

    def scored_tasks(self) -> Sequence[Task]: ...

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by task id, the labels under which a scored task's result is also reported."""
        ...

    def describe(self, task: Task) -> TaskText:
        """Return a description of the task in words."""
        ...

    def describe_candidate(self, candidate: Candidate) -> str:
        """Return a short description of a candidate."""
        ...

    def wordings(self, body: msgspec.Raw) -> Sequence[Wording]:
        """Return the wordings of a task's instructions."""
        ...

    async def sources(
        self, reader: Reader, visits: Iterable[GroupSummary]
    ) -> Sequence[AnnotatedSource]: ...


@dataclass(frozen=True)
class RunHistory:
    """What one run has done up to its newest record.

    Progress, totals and costs count all records, and the rest those that the journal has.
    """

    config: RunConfig
    skills: Mapping[str, Sequence[str]]
    """Scored task id -> skills. There is one skill per turn if the task declares them by turn."""

    describe: Callable[[Task], TaskText]
    """Returns the description of a task in words."""

    describe_candidate: Callable[[Candidate], str]
    """Returns a short description of a candidate."""

    wordings: Callable[[msgspec.Raw], Sequence[Wording]]
    """Returns the wordings of the instructions in a task's body."""

    without: Mapping[str, str]
    """Capabilities that the environment lacks -> what the loop does without each."""

    gate_order: Sequence[Gate]
    withheld: str
    """These two are those of `Described`."""

    progress: Progress
    evolution: LineageIndex
    totals: EvolutionTotals
    costs: Costs
    timeline: Timeline
    series: Sequence[RunSeries] = ()
    """Metrics of this run, and then of those to compare it with."""

    sample: Sample = NO_SAMPLE
    """Rollouts of some groups."""

    sources: Sequence[AnnotatedSource] = ()
    """Sources with what the rollouts reached in them; empty if the environment has none."""

    suspects: Mapping[str, Suspect] = field(default_factory=dict[str, Suspect])
    """Task id -> why the task may be wrong."""

    def fold(self, message: Message, time_ns: int) -> None:
        """Add one record of Unix time ``time_ns`` to what counts the records of the journal."""
        self.evolution.fold(message, time_ns)
        self.timeline.fold(message, time_ns)


def nothing_yet(config: RunConfig, environment: Described) -> RunHistory:
    return RunHistory(
        config=config,
        skills={
            task.task_id: environment.describe(task).skills or task.skills
            for task in environment.scored_tasks()
        },
        describe=environment.describe,
        describe_candidate=environment.describe_candidate,
        wordings=environment.wordings,
        without=absent(environment.capabilities),
        gate_order=environment.gate_order,
        withheld=environment.withheld,
        progress=Progress(environment.labels()),
        evolution=LineageIndex(),
        totals=EvolutionTotals(),
        costs=Costs(),
        timeline=Timeline(),
    )


def visits_of(data: RunHistory) -> list[GroupSummary]:
    """Return the summaries of all groups that the journal has, by their numbers."""
    every = (visit for visits in data.evolution.visits.values() for visit in visits)
    return sorted(every, key=lambda visit: visit.group)


async def suspects_of(reader: Reader, data: RunHistory) -> Mapping[str, Suspect]:
    """Return the tasks that may be wrong, by id."""
    histories = [data.evolution.history(task_id) for task_id in data.evolution.tasks]
    return await suspects(reader, histories, data.describe, data.wordings)


def listed_note(evolution: LineageIndex) -> str:
    """Return a sentence on groups that are only counted, after a space; empty without any."""
    since = evolution.listed_from()
    if since is None:
        return ""
    return (
        f" The journal has dropped the summaries of older groups, and lineages of older tasks that "
        f"left the pool: single groups are shown from policy version {since} on."
    )


def judged(visits: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Return the summaries without those whose rollouts all failed: these have no version."""
    return [visit for visit in visits if visit.rollouts]


def skills_of(data: RunHistory, task: Task) -> tuple[str, ...]:
    """Return the skills of the task, or else the tools of its reference; each once."""
    text = data.describe(task)
    return tuple(dict.fromkeys(text.skills or task.skills or text.tools)) or (NO_TOOL,)
