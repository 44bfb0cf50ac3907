"""`attach signals` and `attach tasks`: the weaknesses that were found, and the tasks there are."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from coevolve.attach.output import age, console, print_json, table
from coevolve.attach.subject import Subject
from coevolve.attach.words import (
    about,
    became,
    counted,
    newest_steps,
    origin_of,
    scores,
    shortened,
)
from coevolve.curriculum.task_pool import TOPICS as POOL_TOPICS
from coevolve.curriculum.task_pool import Life, Pool
from coevolve.journal.fold import fold
from coevolve.run.evolution import Evolution, whole_fold
from coevolve.run.fates import AnyVisit, SignalFate, TaskHistory
from coevolve.run.wording import asks
from protocols.evolution import OnTask, SignalKind
from protocols.journal import Message
from protocols.rollouts import RolloutRequest
from protocols.tasks import AnyTask, CoverageTask, Seeded, Synthesized

NS_PER_S = 1e9
Origin = Literal["seed", "synthesized"]


async def signals(
    subject: Subject, *, kind: SignalKind | None, count: int, now_s: float, as_json: bool
) -> None:
    """Print the newest ``count`` signals and what became of each; ``now_s`` is Unix time."""
    evolution = await whole_fold(subject.reader)
    chosen = [each for each in evolution.signals.values() if kind in (None, each.kind)]
    fates = [evolution.fate(each.signal_id) for each in list(reversed(chosen))[:count]]
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": evolution.version,
                "count": len(chosen),
                "signals": [_signal_tree(evolution, fate) for fate in fates],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {evolution.version}")
    columns = ("since", "kind", "about", "score", "rule", "what became of it")
    shown = table(
        f"signals, {len(fates)} of {len(chosen)}",
        columns,
        wrapped=("about", "rule", "what became of it"),
    )
    for fate in fates:
        shown.add_row(
            f"v{fate.signal.policy_version}\n{age(now_s - fate.time_ns / NS_PER_S)} ago",
            fate.signal.kind,
            about(evolution, fate),
            f"{fate.signal.score:.2f}",
            f"{fate.signal.rule}\n{counted(len(fate.signal.evidence), 'rollout')}",
            became(fate),
        )
    out.print(shown)


async def tasks(subject: Subject, *, origin: Origin | None, count: int, as_json: bool) -> None:
    """Print the newest ``count`` tasks and what happened to each."""
    evolution = await whole_fold(subject.reader)
    lives = await _lives(subject)
    chosen = [
        task.task_id
        for task in evolution.tasks.values()
        if origin in (None, "seed" if isinstance(task.origin, Seeded) else "synthesized")
    ]
    histories = [evolution.history(task) for task in list(reversed(chosen))[:count]]
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": evolution.version,
                "count": len(chosen),
                "tasks": [_task_tree(evolution, history, lives) for history in histories],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {evolution.version}")
    columns = ("id", "life", "origin", "label", "turns", "visits", "last", "trained in steps")
    shown = table(
        f"tasks, {len(histories)} of {len(chosen)}",
        columns,
        wrapped=("origin", "turns", "trained in steps"),
    )
    for history in histories:
        shown.add_row(
            history.task.task_id,
            lives.get(history.task.task_id, ""),
            origin_of(evolution, history),
            history.label or "",
            f"{len(_instructions(history.task))}: {shortened(asks(history.task))}",
            str(len(history.visits)),
            scores(history.visits[-1:]),
            newest_steps(history),
        )
    out.print(shown)


async def _lives(subject: Subject) -> Mapping[str, Life]:
    """Return how each task of the pool lives, by its id; empty where there is no pool."""
    if subject.config.arm == "uniform":
        return {}
    pool = Pool(subject.config)
    roots: dict[str, str] = {}

    def follow(message: Message) -> None:
        """Fold a record; a turn on a design is the task's that it began with."""
        match message:
            case CoverageTask():
                roots[message.task_id] = message.beginning
            case RolloutRequest(task_id=task_id):
                root = roots.get(task_id, task_id)
                pool.fold(msgspec.structs.replace(message, task_id=root))
            case _:
                pool.fold(message)

    await fold(subject.reader, (*POOL_TOPICS, "coverage_task"), follow)
    return {task_id: pool.task(task_id).life for task_id in (*pool.live, *pool.retired)}


def _signal_tree(evolution: Evolution, fate: SignalFate) -> Mapping[str, Any]:
    flagged = fate.signal.about
    task = evolution.tasks.get(flagged.task_id) if isinstance(flagged, OnTask) else None
    return {
        "signal": fate.signal,
        "instruction": asks(task) if task else None,
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
    evolution: Evolution, history: TaskHistory, lives: Mapping[str, Life]
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
        "instructions": _instructions(task),
        "visits": _visit_trees(history.visits),
        "trained": history.trained,
    }


def _instructions(task: AnyTask) -> list[str]:
    if isinstance(task, CoverageTask):
        return [asks(task)]
    return [turn.instruction for turn in task.body.turns]


def _visit_trees(visits: tuple[AnyVisit, ...]) -> list[Mapping[str, int]]:
    return [
        {
            "version_min": visit.version_min,
            "version_max": visit.version_max,
            "successes": visit.successes,
            "rollouts": visit.rollouts,
        }
        for visit in visits
    ]
