"""`attach signals` and `attach tasks`: the weaknesses found so far, and the tasks."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from coevolve.cli.attach_views.output import age, console, print_json, table
from coevolve.cli.attach_views.subject import Subject
from coevolve.cli.attach_views.words import (
    about,
    became,
    counted,
    gap_of,
    newest_steps,
    origin_of,
    scores,
    shortened,
)
from coevolve.curriculum.pool_task import Life
from coevolve.curriculum.state import curriculum_snapshots
from coevolve.curriculum.task_sampler import Pooled
from coevolve.environments.interface import Environment
from coevolve.history.differences import Suspect, suspects
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.histories import SignalHistory, TaskHistory
from coevolve.history.instance_gap import TaskGap, task_gaps
from coevolve.history.lineage import LineageIndex
from coevolve.history.related import Related
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import newest
from protocols.evolution import GroupSummary, OnTask, Signal, SignalKind
from protocols.journal import StoredRecord
from protocols.learning import Evaluation
from protocols.tasks import Continued, Instantiated, Seeded, Synthesized, Task, TaskText

NS_PER_S = 1e9
EVALUATIONS = 10
"""Number of evaluations from which the gap of a task is computed, the newest."""

Origin = Literal["seed", "synthesized"]


async def signals(
    subject: Subject, *, kind: SignalKind | None, count: int, now_s: float, as_json: bool
) -> None:
    """Print the newest ``count`` signals and their outcomes; ``now_s`` is Unix time."""
    totals, _ = await evolution_snapshots(subject.reader).folded()
    environment = subject.environment
    of_all = sum(n for each, n in totals.signals.items() if kind in (None, each))
    evolution, chosen = await _signals(subject, kind, count)
    fates = [evolution.signal_history(signal_id) for signal_id in chosen]
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": totals.version,
                "count": of_all,
                "signals": [_signal_tree(environment, evolution, fate) for fate in fates],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {totals.version}")
    columns = ("since", "kind", "about", "score", "rule", "outcome")
    rows = (
        (
            f"v{fate.signal.policy_version}\n{age(now_s - fate.time_ns / NS_PER_S)} ago",
            fate.signal.kind,
            about(environment, evolution, fate),
            f"{fate.signal.score:.2f}",
            f"{fate.signal.rule}\n{counted(len(fate.signal.evidence), 'rollout')}",
            became(fate),
        )
        for fate in fates
    )
    title = f"signals, {len(fates)} of {of_all}"
    out.print(table(title, columns, rows, wrapped=("about", "rule", "outcome")))


async def tasks(subject: Subject, *, origin: Origin | None, count: int, as_json: bool) -> None:
    """Print the newest ``count`` tasks and the history of each."""
    totals, _ = await evolution_snapshots(subject.reader).folded()
    of_all = (origin != "synthesized") * totals.seed_tasks + (origin != "seed") * totals.made_tasks
    environment = subject.environment
    evolution, chosen = await _tasks(subject, origin, count)
    lives = await _lives(subject, chosen)
    histories = [evolution.history(task_id) for task_id in chosen]
    texts = [environment.describe(history.task) for history in histories]
    gaps = await _gaps(subject, chosen)
    doubted = await suspects(subject.reader, histories, environment.describe, environment.wordings)
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": totals.version,
                "count": of_all,
                "tasks": [
                    {
                        **_task_tree(evolution, history, text, lives, gaps),
                        "suspect": _suspect_tree(doubted.get(history.task.task_id), environment),
                    }
                    for history, text in zip(histories, texts, strict=True)
                ],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {totals.version}")
    columns = ("id", "life", "origin", "label", "turns", "groups", "last", "trained in steps")
    columns += ("gap",) if gaps else ()
    rows = (
        (
            history.task.task_id,
            lives.get(history.task.task_id, ""),
            origin_of(evolution, history),
            history.label or "",
            f"{len(_instructions(text))}: {shortened(text.headline)}",
            history.groups.groups,
            scores((history.groups.newest,)) if history.groups.judged else "",
            newest_steps(history),
            *((gap_of(gaps.get(history.task.task_id)),) if gaps else ()),
        )
        for history, text in zip(histories, texts, strict=True)
    )
    title = f"tasks, {len(histories)} of {of_all}"
    out.print(table(title, columns, rows, wrapped=("id", "origin", "turns", "trained in steps")))
    for task_id, suspect in doubted.items():
        where = f"turn {suspect.turn} of {suspect.turns}"
        told = f"{suspect.reference or 'no further call'}, not {suspect.otherwise or 'none'}"
        out.print(
            f"suspect task {task_id}: {suspect.successes} of {suspect.attempts} rollouts solved "
            f"it. {suspect.why} See {where}" + ("." if environment.withheld else f": {told}.")
        )


async def _signals(
    subject: Subject, kind: SignalKind | None, count: int
) -> tuple[LineageIndex, list[str]]:
    """Return the newest signals of a kind, the newest first, and all records about them."""

    def is_wanted(record: StoredRecord) -> bool:
        return kind in (None, decode_as(record, Signal).kind)

    related, chosen = Related(subject.reader), list[str]()
    for record in reversed(await newest(subject.reader, topic_of(Signal), count, is_wanted)):
        chosen.append(decode_as(record, Signal).signal_id)
        await related.add_signal(chosen[-1])
    return related.index(), chosen


async def _tasks(
    subject: Subject, origin: Origin | None, count: int
) -> tuple[LineageIndex, list[str]]:
    """Return the newest tasks of an origin, the newest first, and all records about them."""

    def is_wanted(record: StoredRecord) -> bool:
        match decode_as(record, Task).origin:
            case Continued() | Instantiated():
                return False
            case Seeded():
                return origin != "synthesized"
            case _:
                return origin != "seed"

    related, chosen = Related(subject.reader), list[str]()
    for record in reversed(await newest(subject.reader, topic_of(Task), count, is_wanted)):
        chosen.append(decode_as(record, Task).task_id)
        await related.add_task(chosen[-1])
    return related.index(), chosen


async def _lives(subject: Subject, tasks: Sequence[str]) -> Mapping[str, Life]:
    """Return the state of those of the tasks that are in the pool; none if the run has no pool."""
    open_sampler = subject.environment.sampler
    snapshots = curriculum_snapshots(subject.reader, subject.config, open_sampler)
    if not isinstance(snapshots.new().sampler, Pooled):
        return {}
    state, _ = await snapshots.folded()
    assert isinstance(state.sampler, Pooled)
    lives: dict[str, Life] = {}
    for task_id in tasks:
        if (life := state.sampler.pool.life(task_id)) is not None:
            lives[task_id] = life
    return lives


async def _gaps(subject: Subject, tasks: Sequence[str]) -> Mapping[str, TaskGap]:
    """Return the instance gap of those of the tasks that evaluations scored both ways."""
    if not subject.config.evaluator.fresh:
        return {}
    records = await newest(subject.reader, topic_of(Evaluation), EVALUATIONS)
    return task_gaps([decode_as(record, Evaluation) for record in records], tasks)


def _signal_tree(
    environment: Environment, evolution: LineageIndex, fate: SignalHistory
) -> Mapping[str, Any]:
    flagged = fate.signal.about
    task = evolution.tasks.get(flagged.task_id) if isinstance(flagged, OnTask) else None
    return {
        "signal": fate.signal,
        "instruction": environment.describe(task).headline if task else None,
        "time_s": fate.time_ns / NS_PER_S,
        "outcome": fate.outcome,
        "settled": fate.settled,
        "candidates": [candidate.candidate_id for candidate in fate.candidates],
        "verdicts": fate.verdicts,
        "tasks": [history.task.task_id for history in fate.tasks],
        "visits": _visit_trees(fate.visits),
        "flagged_before": _visit_trees(fate.before),
        "flagged_since": _visit_trees(fate.since),
    }


def _task_tree(
    evolution: LineageIndex,
    history: TaskHistory,
    text: TaskText,
    lives: Mapping[str, Life],
    gaps: Mapping[str, TaskGap],
) -> Mapping[str, Any]:
    task = history.task
    made = task.origin if isinstance(task.origin, Synthesized) else None
    signal = evolution.signals.get(made.signal_id) if made else None
    return {
        "task_id": task.task_id,
        "life": lives.get(task.task_id),
        "origin": task.origin,
        "signal_kind": signal.kind if signal else None,
        "synthesizer": history.synthesizer,
        "label": history.label,
        "instructions": _instructions(text),
        "groups": history.groups,
        "visits": _visit_trees(history.visits),
        "trained": history.trained,
        "instance_gap": gaps.get(task.task_id),
    }


def _suspect_tree(suspect: Suspect | None, environment: Environment) -> Mapping[str, Any] | None:
    if suspect is None:
        return None
    return {
        "why": suspect.why,
        "successes": suspect.successes,
        "attempts": suspect.attempts,
        "turn": suspect.turn,
        "reference": None if environment.withheld else suspect.reference,
        "otherwise": None if environment.withheld else suspect.otherwise,
    }


def _instructions(text: TaskText) -> list[str]:
    return [turn.instruction for turn in text.turns] or [text.headline]


def _visit_trees(visits: tuple[GroupSummary, ...]) -> list[Mapping[str, int]]:
    return [
        {
            "version_min": visit.version_min,
            "version_max": visit.version_max,
            "successes": visit.successes,
            "rollouts": visit.rollouts,
        }
        for visit in visits
    ]
