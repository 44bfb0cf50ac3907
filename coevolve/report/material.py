"""What a report is made of, folded from a run's journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.journal.codec import decode
from coevolve.journal.fold import in_order
from coevolve.report.timeline import TOPICS as TIMELINE_TOPICS
from coevolve.report.timeline import Timeline
from coevolve.run.attribution import Attribution
from coevolve.run.costs import TOPICS as COSTS_TOPICS
from coevolve.run.costs import Costs
from coevolve.run.evolution import TOPICS as EVOLUTION_TOPICS
from coevolve.run.evolution import Evolution
from coevolve.run.fates import AnyVisit
from coevolve.run.progress import TOPICS as PROGRESS_TOPICS
from coevolve.run.progress import Progress
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.tasks import AnyTask, CoverageTask

TOPICS = tuple(
    dict.fromkeys((*TIMELINE_TOPICS, *PROGRESS_TOPICS, *EVOLUTION_TOPICS, *COSTS_TOPICS))
)
"""All but the rollouts and what belongs to them: visits sum those up."""

NO_TOOL = "no call"


@dataclass(frozen=True)
class Material:
    """One run, as far as it has come."""

    config: RunConfig
    skills: Mapping[str, Sequence[str]]
    """Held-out task id -> skills, one a turn."""

    progress: Progress
    evolution: Evolution
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
    config: RunConfig,
    labels: Mapping[str, Sequence[str]],
    skills: Mapping[str, Sequence[str]],
    attribution: Attribution | RunError | None = None,
) -> Material:
    """Return the material of a run without records.

    ``labels`` name the groups of each held-out task, as `Progress` takes them; ``skills`` what each
    turn of it asks for.
    """
    return Material(
        config=config,
        skills=skills,
        progress=Progress(labels),
        evolution=Evolution(),
        costs=Costs(),
        timeline=Timeline(),
        attribution=attribution,
    )


async def gather(
    reader: Reader,
    config: RunConfig,
    labels: Mapping[str, Sequence[str]],
    skills: Mapping[str, Sequence[str]],
    attribution: Attribution | RunError | None = None,
) -> Material:
    """Return everything that the journal holds by now; the run may go on meanwhile."""
    material = nothing_yet(config, labels, skills, attribution)
    async for record in in_order(reader, TOPICS):
        material.fold(decode(record), record.time_ns)
    return material


def tools_of(task: AnyTask) -> tuple[str, ...]:
    """Return the tools that the task's reference calls, in order; none for a design's."""
    if isinstance(task, CoverageTask):
        return ()
    calls = (call for turn in task.body.turns for call in turn.reference)
    return tuple(call.partition("(")[0] for call in calls)


def judged(visits: Sequence[AnyVisit]) -> list[AnyVisit]:
    """Leave out the visits of which machines' failures left no rollout: they have no version."""
    return [visit for visit in visits if visit.rollouts]


def skills_of(task: AnyTask) -> tuple[str, ...]:
    """Return what the task exercises: its skills, or the tools of its reference; each once.

    A task on a design exercises the design.
    """
    if isinstance(task, CoverageTask):
        return (task.design,)
    return tuple(dict.fromkeys(task.skills or tools_of(task))) or (NO_TOOL,)
