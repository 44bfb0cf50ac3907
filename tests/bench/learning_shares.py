"""What else a learning study reads of a run: success by kind of task, and shares of its work."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table

from coevolve.environments.tools.task import tool_task
from coevolve.journal.codec import decode_as
from coevolve.journal.paging import whole_topic
from protocols.evolution import ProbeReport
from protocols.interfaces import Reader
from protocols.learning import Evaluation, GroupDiscarded, StepReport
from protocols.tasks import Synthesized, Task


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Success by label, and shares of groups and rollouts, of one run."""

    scores: Mapping[int, Mapping[str, float]]
    """Policy version -> label, or ``all`` -> held-out success, %."""

    made: float
    """Share of the trained groups that attempted a task that the run made, %."""

    imitated: float
    """Share of the trained groups whose reference was imitated, %."""

    probes: float
    """Share of probes among all rollouts: trained, discarded and probes, %."""

    shown: int
    """Held-out requests of one turn that are, word for word, a turn of a training task."""

    @property
    def below_best(self) -> float:
        """Return how far the last score is below the highest one, in points."""
        successes = {version: scores["all"] for version, scores in self.scores.items()}
        return max(successes.values()) - successes[max(successes)]


async def shares_of(
    reader: Reader, labels: Mapping[str, Sequence[str]], held_out: Sequence[Task]
) -> Shares:
    """Return the shares of a run; ``labels`` are those of its ``held_out`` tasks."""
    tasks = [decode_as(each, Task) async for each in whole_topic(reader, "task")]
    trained = {request for task in tasks for request in _requests(task)}
    asked = [_requests(task) for task in held_out]
    made = {task.task_id for task in tasks if isinstance(task.origin, Synthesized)}
    made |= {task.task_id for task in tasks if task.root in made}
    steps = [decode_as(each, StepReport) async for each in whole_topic(reader, "step_report")]
    groups = [group for step in steps for group in step.groups]
    discarded = [
        decode_as(each, GroupDiscarded).rollouts
        async for each in whole_topic(reader, "group_discarded")
    ]
    probes = sum(
        [
            decode_as(each, ProbeReport).rollouts
            async for each in whole_topic(reader, "probe_report")
        ]
    )
    rollouts = sum(len(group.sequences) for group in groups) + sum(discarded)
    return Shares(
        scores={
            evaluation.version: _by_label(evaluation, labels)
            for evaluation in [
                decode_as(each, Evaluation) async for each in whole_topic(reader, "evaluation")
            ]
        },
        made=100 * fmean(group.task_id in made for group in groups),
        imitated=100 * fmean(group.use == "imitation" for group in groups),
        probes=100 * probes / (rollouts + probes),
        shown=sum(len(requests) == 1 and requests[0] in trained for requests in asked),
    )


def _requests(task: Task) -> list[str]:
    return [turn.instruction.lower() for turn in tool_task(task).turns]


def _by_label(evaluation: Evaluation, labels: Mapping[str, Sequence[str]]) -> dict[str, float]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for score in evaluation.scores:
        for label in ("all", *labels[score.task_id]):
            found[label].append(100 * score.score)
    return {label: fmean(scores) for label, scores in found.items()}


SHARES = ("below\nbest", "groups on\nmade tasks", "imitated", "probes", "held out,\ntrained")


def shares_table(found: Mapping[tuple[str, int], Shares]) -> Table:
    """Return a row per run: success at the start and the end by label, and the shares."""
    labels = list(next(iter(found.values())).scores[0])
    shown = Table(title="Held-out success, %, at the start and the end by label; shares, %")
    shown.add_column("arm", no_wrap=True)
    for heading in ("seed", *labels, *SHARES):
        shown.add_column(heading, justify="right", no_wrap=True)
    for (arm, seed), run in found.items():
        first, last = run.scores[0], run.scores[max(run.scores)]
        shown.add_row(
            arm,
            str(seed),
            *(f"{first[label]:.1f}, {last[label]:.1f}" for label in labels),
            f"{run.below_best:.1f}",
            *(f"{share:.1f}" for share in (run.made, run.imitated, run.probes)),
            str(run.shown),
        )
    return shown
