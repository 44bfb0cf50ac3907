"""What a report is made of, folded from a run's journal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from coevolve.journal.codec import decode
from coevolve.journal.fold import in_order
from coevolve.report.timeline import TOPICS as TIMELINE_TOPICS
from coevolve.report.timeline import Timeline
from coevolve.runs.attribution import Attribution
from coevolve.runs.costs import TOPICS as COSTS_TOPICS
from coevolve.runs.costs import Costs
from coevolve.runs.lineage import TOPICS as EVOLUTION_TOPICS
from coevolve.runs.lineage import LineageIndex
from coevolve.runs.progress import TOPICS as PROGRESS_TOPICS
from coevolve.runs.progress import Progress
from protocols.capabilities import Capabilities, absent
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.tasks import Task, TaskText

TOPICS = tuple(
    dict.fromkeys((*TIMELINE_TOPICS, *PROGRESS_TOPICS, *EVOLUTION_TOPICS, *COSTS_TOPICS))
)
"""All but the rollouts and what belongs to them: visits sum those up."""

NO_TOOL = "no call"


class Described(Protocol):
    """What a report asks of the run's environment."""

    capabilities: ClassVar[Capabilities]

    def scored_tasks(self) -> Sequence[Task]:
        """Return the tasks that policy versions are scored on."""
        ...

    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the groups that the score of each scored task is reported under, by task id."""
        ...

    def describe(self, task: Task) -> TaskText:
        """Return the task in words."""
        ...


@dataclass(frozen=True)
class ReportData:
    """One run, as far as it has come."""

    config: RunConfig
    skills: Mapping[str, Sequence[str]]
    """Scored task id -> skills, one a turn where that is known."""

    describe: Callable[[Task], TaskText]
    """Puts a task into words."""

    without: Mapping[str, str]
    """Capabilities that the environment does not have, with what the loop does without each."""

    progress: Progress
    evolution: LineageIndex
    costs: Costs
    timeline: Timeline
    attribution: Attribution | RunError | None = None
    """What each source of gradient was found to be worth, where somebody asked."""

    def fold(self, message: Message, time_ns: int) -> None:
        """Take in one record, recorded at this Unix time."""
        self.progress.fold(message)
        self.evolution.fold(message, time_ns)
        self.costs.fold(message)
        self.timeline.fold(message, time_ns)


def nothing_yet(
    config: RunConfig, environment: Described, attribution: Attribution | RunError | None = None
) -> ReportData:
    """Return the data of a run of ``environment`` without records."""
    return ReportData(
        config=config,
        skills={task.task_id: task.skills for task in environment.scored_tasks()},
        describe=environment.describe,
        without=absent(environment.capabilities),
        progress=Progress(environment.labels()),
        evolution=LineageIndex(),
        costs=Costs(),
        timeline=Timeline(),
        attribution=attribution,
    )


async def gather(
    reader: Reader,
    config: RunConfig,
    environment: Described,
    attribution: Attribution | RunError | None = None,
) -> ReportData:
    """Return everything that the journal holds by now; the run may go on meanwhile."""
    data = nothing_yet(config, environment, attribution)
    async for record in in_order(reader, TOPICS):
        data.fold(decode(record), record.time_ns)
    return data


def judged(visits: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Leave out the visits of which machines' failures left no rollout: they have no version."""
    return [visit for visit in visits if visit.rollouts]


def skills_of(data: ReportData, task: Task) -> tuple[str, ...]:
    """Return what the task exercises: its skills, or the tools that it takes; each once."""
    return tuple(dict.fromkeys(task.skills or data.describe(task).tools)) or (NO_TOOL,)
