"""`attach signals` and `attach tasks`: the weaknesses found so far, and the tasks."""

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
from coevolve.environments.interface import Environment
from coevolve.journal.fold import fold
from coevolve.runs.histories import SignalHistory, TaskHistory
from coevolve.runs.lineage import LineageIndex, whole_fold
from protocols.evolution import GroupSummary, OnTask, SignalKind
from protocols.journal import Message
from protocols.rollouts import RolloutRequest
from protocols.tasks import Continued, Seeded, Synthesized, Task, TaskText

NS_PER_S = 1e9
Origin = Literal["seed", "synthesized"]


async def signals(
    subject: Subject, *, kind: SignalKind | None, count: int, now_s: float, as_json: bool
) -> None:
    """Print the newest ``count`` signals and their outcomes; ``now_s`` is Unix time."""
    evolution, environment = await whole_fold(subject.reader), subject.environment
    chosen = [each for each in evolution.signals.values() if kind in (None, each.kind)]
    fates = [evolution.fate(each.signal_id) for each in list(reversed(chosen))[:count]]
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": evolution.version,
                "count": len(chosen),
                "signals": [_signal_tree(environment, evolution, fate) for fate in fates],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {evolution.version}")
    columns = ("since", "kind", "about", "score", "rule", "outcome")
    shown = table(
        f"signals, {len(fates)} of {len(chosen)}",
        columns,
        wrapped=("about", "rule", "outcome"),
    )
    for fate in fates:
        shown.add_row(
            f"v{fate.signal.policy_version}\n{age(now_s - fate.time_ns / NS_PER_S)} ago",
            fate.signal.kind,
            about(environment, evolution, fate),
            f"{fate.signal.score:.2f}",
            f"{fate.signal.rule}\n{counted(len(fate.signal.evidence), 'rollout')}",
            became(fate),
        )
    out.print(shown)


async def tasks(subject: Subject, *, origin: Origin | None, count: int, as_json: bool) -> None:
    """Print the newest ``count`` tasks and the history of each."""
    evolution, environment = await whole_fold(subject.reader), subject.environment
    lives = await _lives(subject)
    chosen = [
        task.task_id
        for task in evolution.tasks.values()
        if origin in (None, "seed" if isinstance(task.origin, Seeded) else "synthesized")
    ]
    histories = [evolution.history(task) for task in list(reversed(chosen))[:count]]
    texts = [environment.describe(history.task) for history in histories]
    if as_json:
        print_json(
            {
                "run": subject.name,
                "running": subject.running,
                "version": evolution.version,
                "count": len(chosen),
                "tasks": [
                    _task_tree(evolution, history, text, lives)
                    for history, text in zip(histories, texts, strict=True)
                ],
            }
        )
        return
    out = console()
    out.print(f"{subject.standing}; version {evolution.version}")
    columns = ("id", "life", "origin", "label", "turns", "groups", "last", "trained in steps")
    shown = table(
        f"tasks, {len(histories)} of {len(chosen)}",
        columns,
        wrapped=("origin", "turns", "trained in steps"),
    )
    for history, text in zip(histories, texts, strict=True):
        shown.add_row(
            history.task.task_id,
            lives.get(history.task.task_id, ""),
            origin_of(evolution, history),
            history.label or "",
            f"{len(_instructions(text))}: {shortened(text.headline)}",
            str(len(history.visits)),
            scores(history.visits[-1:]),
            newest_steps(history),
        )
    out.print(shown)


async def _lives(subject: Subject) -> Mapping[str, Life]:
    """Return the state of each task in the pool, by task id.

    Seed tasks are left out if the run's sampler opens without them: the pool then does not draw
    them.
    """
    pool = Pool(subject.config)
    has_seeds = bool(subject.environment.sampler().opening())
    roots: dict[str, str] = {}

    def follow(message: Message) -> None:
        """Fold a record; a request to continue a rollout counts for the task it started with."""
        match message:
            case Task(origin=Continued(root=root)):
                roots[message.task_id] = root
            case RolloutRequest(task_id=task_id):
                root = roots.get(task_id, task_id)
                pool.fold(msgspec.structs.replace(message, task_id=root))
            case _:
                pool.fold(message)

    await fold(subject.reader, POOL_TOPICS, follow)
    tasks = [pool.task(task_id) for task_id in (*pool.live, *pool.retired)]
    return {task.task_id: task.life for task in tasks if has_seeds or task.is_synthesized}


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
    evolution: LineageIndex, history: TaskHistory, text: TaskText, lives: Mapping[str, Life]
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
        "visits": _visit_trees(history.visits),
        "trained": history.trained,
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
