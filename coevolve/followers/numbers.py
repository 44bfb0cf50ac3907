"""A running run in numbers, for a monitor that asks now and then."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coevolve.history.progress import Progress
from coevolve.journal.codec import topics_of
from coevolve.parts.pausing import is_paused
from coevolve.runs.drive import Run
from protocols.config import RunConfig
from protocols.control import PartStatus, RunResumed, RunStarted
from protocols.journal import JournalStatistics
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout

NS_PER_S = 1e9

PROGRESS = topics_of(RunStarted, RunResumed, Rollout, StepReport, Evaluation)
"""Topics whose records are the run's progress. A start is progress, so that a run that hangs before
its first rollout is noticed, and a resumed one has time."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """One number."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    counts: bool = False
    """Whether it only grows, until the run or its part starts again."""


async def numbers_of(config: RunConfig, run: Run) -> Sequence[Number]:
    """Return the run's present numbers. Raises what its store raises."""
    statuses, statistics, paused = await asyncio.gather(
        run.statuses(), run.store.statistics(), is_paused(run.store)
    )
    newest = [(topic, await run.reader.last(topic)) for topic in PROGRESS]
    return [
        Number(
            name="coevolve_run",
            about="The run; always 1.",
            value=1,
            labels={"run": config.name, "arm": config.arm, "environment": config.uses},
        ),
        Number(name="coevolve_paused", about="Whether the run is paused.", value=paused),
        *(
            Number(
                name="coevolve_last_progress_timestamp_seconds",
                about="Unix time of the newest start, rollout, step or evaluation.",
                value=record.time_ns / NS_PER_S,
                labels={"kind": topic},
            )
            for topic, record in newest
            if record is not None
        ),
        *_of_progress(config, run.progress),
        *_of_failures(run.progress),
        *_of_parts(statuses),
        *_of_journal(statistics),
    ]


def _of_progress(config: RunConfig, progress: Progress) -> Iterator[Number]:
    yield Number(name="coevolve_step", about="Steps that are taken.", value=progress.step)
    yield Number(
        name="coevolve_steps", about="Steps that the run will take.", value=config.learner.steps
    )
    for name, value in progress.metrics.items():
        yield Number(
            name="coevolve_step_metric",
            about="A metric of the newest step; `coevolve explain NAME` says what it means.",
            value=value,
            labels={"name": name},
        )
    for measure, scores in progress.tables.items():
        version = max(scores, default=None)
        for label, score in scores[version].items() if version is not None else ():
            labels = {"measure": measure, "tasks": label}
            yield Number(
                name="coevolve_score_ratio",
                about="Mean score of the newest scored version on its tasks, by measure.",
                value=score.mean,
                labels=labels,
            )
            yield Number(
                name="coevolve_score_std_error_ratio",
                about="Standard error of coevolve_score_ratio, over the choice of tasks.",
                value=score.std_error,
                labels=labels,
            )
    if progress.evaluations:
        yield Number(
            name="coevolve_scored_version",
            about="The newest policy version that was scored.",
            value=max(progress.evaluations),
        )
    for name, count in progress.evolution.items():
        yield Number(
            name="coevolve_evolution",
            about="Signals, settled signals and verdicts, by the names in metrics.jsonl.",
            value=count,
            labels={"name": name},
            counts=True,
        )


def _of_failures(progress: Progress) -> Iterator[Number]:
    degraded = progress.degraded
    alarm = progress.deliveries.alarm is not None
    about = "Whether an engine serves other weights than those published, which stops the training."
    yield Number(name="coevolve_weight_sync_alarm", about=about, value=alarm)
    about = "Units of work that were given up."
    yield Number(name="coevolve_dead_letters", about=about, value=degraded.letters)
    failing = {**degraded.parts, **degraded.followers}
    failing |= {"model": ""} if degraded.model is not None else {}
    failing |= {"reader": ""} if degraded.reader is not None else {}
    for name in failing:
        about = "An optional part, a model of synthesis or a tracker that fails; else absent."
        yield Number(name="coevolve_failing", about=about, value=1, labels={"what": name})
    for part, count in progress.restarts.items():
        yield Number(
            name="coevolve_part_restarts",
            about="Restarts of a part.",
            value=count,
            labels={"part": part},
            counts=True,
        )
    for reason, count in progress.discarded.items():
        yield Number(
            name="coevolve_groups_discarded",
            about="Groups that no step trains on.",
            value=count,
            labels={"reason": reason},
            counts=True,
        )


def _of_parts(statuses: Sequence[PartStatus]) -> Iterator[Number]:
    for status in statuses:
        labels = {"part": status.part}
        about = "Whether the part answers."
        yield Number(
            name="coevolve_part_up", about=about, value=status.pid is not None, labels=labels
        )
        if status.pid is None:
            continue
        for name, about, value in (
            ("memory_bytes", "Resident memory of its process.", status.memory_bytes),
            ("mailbox", "Records that the part took and has not finished.", status.mailbox),
            ("same_seconds", "Seconds since what it waits for changed.", status.since_s),
            ("policy_version", "The version it works with; -1 if none.", status.policy_version),
        ):
            yield Number(name=f"coevolve_part_{name}", about=about, value=value, labels=labels)
        for name, about, value in (
            ("finished", "Records that the part has finished.", status.done),
            ("cpu_seconds", "CPU seconds of its process, without children.", status.cpu_s),
        ):
            yield Number(
                name=f"coevolve_part_{name}", about=about, value=value, labels=labels, counts=True
            )


def _of_journal(statistics: JournalStatistics) -> Iterator[Number]:
    for name, depth in statistics.backlog.items():
        yield Number(
            name="coevolve_queue_depth",
            about="Records that wait for a part and that nobody works on.",
            value=depth,
            labels={"consumer": name},
        )
    for topic, count in statistics.topics.items():
        yield Number(
            name="coevolve_journal_records",
            about="Records in the journal, which drops the oldest rollouts.",
            value=count,
            labels={"topic": topic},
        )
    about = "Size of the journal."
    yield Number(name="coevolve_journal_bytes", about=about, value=statistics.size_bytes)
