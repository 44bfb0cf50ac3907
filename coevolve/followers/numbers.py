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


@dataclass(frozen=True)
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
    newest = {topic: await run.reader.last(topic) for topic in PROGRESS}
    times_s = {topic: last.time_ns / NS_PER_S for topic, last in newest.items() if last is not None}
    about = "Unix time of the newest start, rollout, step or evaluation."
    labels = {"run": config.name, "arm": config.arm, "environment": config.uses}
    return [
        Number("coevolve_run", "The run; always 1.", 1, labels),
        Number("coevolve_paused", "Whether the run is paused.", paused),
        *_each("coevolve_last_progress_timestamp_seconds", about, "kind", times_s),
        *_of_progress(config, run.progress),
        *_of_failures(run.progress),
        *_of_parts(statuses),
        *_of_journal(statistics),
    ]


def _each(
    name: str, about: str, label: str, values: Mapping[str, float], *, counts: bool = False
) -> Iterator[Number]:
    """Yield a number for each value of one label."""
    for key, value in values.items():
        yield Number(name, about, value, {label: key}, counts)


def _of_progress(config: RunConfig, progress: Progress) -> Iterator[Number]:
    yield Number("coevolve_step", "Steps that are taken.", progress.step)
    yield Number("coevolve_steps", "Steps that the run will take.", config.learner.steps)
    about = "A metric of the newest step; `coevolve explain NAME` says what it means."
    yield from _each("coevolve_step_metric", about, "name", progress.metrics)
    for measure, scores in progress.tables.items():
        for label, score in scores[max(scores)].items() if scores else ():
            labels = {"measure": measure, "tasks": label}
            about = "Mean score of the newest scored version on its tasks, by measure."
            yield Number("coevolve_score_ratio", about, score.mean, labels)
            about = "Standard error of coevolve_score_ratio, over the choice of tasks."
            yield Number("coevolve_score_std_error_ratio", about, score.std_error, labels)
    if progress.evaluations:
        about = "The newest policy version that was scored."
        yield Number("coevolve_scored_version", about, max(progress.evaluations))
    about = "Signals, settled signals and verdicts, by the names in metrics.jsonl."
    yield from _each("coevolve_evolution", about, "name", progress.evolution, counts=True)


def _of_failures(progress: Progress) -> Iterator[Number]:
    degraded = progress.degraded
    alarm = progress.deliveries.alarm is not None
    about = "Whether an engine serves other weights than those published, which stops the training."
    yield Number("coevolve_weight_sync_alarm", about, alarm)
    yield Number("coevolve_dead_letters", "Units of work that were given up.", degraded.letters)
    models = {"model": degraded.model, "reader": degraded.reader}
    failing = [*degraded.parts, *degraded.followers]
    failing += [name for name, resting in models.items() if resting is not None]
    about = "An optional part, a model of synthesis or a tracker that fails; else absent."
    yield from _each("coevolve_failing", about, "what", dict.fromkeys(failing, 1))
    about = "Restarts of a part."
    yield from _each("coevolve_part_restarts", about, "part", progress.restarts, counts=True)
    about = "Groups that no step trains on."
    yield from _each("coevolve_groups_discarded", about, "reason", progress.discarded, counts=True)


def _of_parts(statuses: Sequence[PartStatus]) -> Iterator[Number]:
    for status in statuses:
        labels = {"part": status.part}
        yield Number(
            "coevolve_part_up", "Whether the part answers.", status.pid is not None, labels
        )
        if status.pid is None:
            continue
        for name, about, value, counts in (
            ("memory_bytes", "Resident memory of its process.", status.memory_bytes, False),
            ("mailbox", "Records that the part took and has not finished.", status.mailbox, False),
            ("same_seconds", "Seconds since what it waits for changed.", status.since_s, False),
            (
                "policy_version",
                "The version it works with; -1 if none.",
                status.policy_version,
                False,
            ),
            ("finished", "Records that the part has finished.", status.done, True),
            ("cpu_seconds", "CPU seconds of its process, without children.", status.cpu_s, True),
        ):
            yield Number(f"coevolve_part_{name}", about, value, labels, counts)


def _of_journal(statistics: JournalStatistics) -> Iterator[Number]:
    about = "Records that wait for a part and that nobody works on."
    yield from _each("coevolve_queue_depth", about, "consumer", statistics.backlog)
    about = "Records in the journal, which drops the oldest rollouts."
    yield from _each("coevolve_journal_records", about, "topic", statistics.topics)
    yield Number("coevolve_journal_bytes", "Size of the journal.", statistics.size_bytes)
