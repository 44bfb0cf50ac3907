"""`attach lineage`: from the weakness that a task came of to what the policy makes of it now."""

import difflib

from rich.tree import Tree

from coevolve.attach.output import console, print_json
from coevolve.attach.subject import Subject
from coevolve.attach.words import about, became, counted, shortened, steps
from coevolve.run.evolution import Evolution, whole_fold
from coevolve.run.fates import AnyCandidate, Lineage, SignalFate, TaskHistory
from coevolve.run.wording import asks, changed
from protocols.design_evolution import DesignCandidate
from protocols.errors import RunError
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    Exploration,
    Parked,
    ProbeReport,
    Refused,
)
from protocols.tasks import CoverageTask, Seeded, TaskBody

NEAR = 5
"""Ids that a refusal names."""


async def lineage(subject: Subject, task: str, *, as_json: bool) -> None:
    """Print where the task whose id begins with ``task`` comes from and what it led to."""
    evolution = await whole_fold(subject.reader)
    found = evolution.lineage(_task_id(subject, evolution, task))
    if as_json:
        print_json({"run": subject.name, "running": subject.running, "lineage": found})
        return
    out = console()
    out.print(subject.standing)
    out.print(_tree(evolution, found))


def _task_id(subject: Subject, evolution: Evolution, prefix: str) -> str:
    """Return the one id that begins with ``prefix``. Raises RunError where there is not one."""
    if prefix in evolution.tasks:
        return prefix
    matches = [task for task in evolution.tasks if task.startswith(prefix)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        named = ", ".join(matches[:NEAR]) + (", ..." if len(matches) > NEAR else "")
        raise RunError(
            f"{subject.name}: {len(matches)} tasks begin with {prefix!r}: {named}; give more of it"
        )
    near = difflib.get_close_matches(prefix, evolution.tasks, NEAR, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "`tasks` lists those that there are"
    raise RunError(f"{subject.name}: no task has an id that begins with {prefix!r}; {hint}")


def _tree(evolution: Evolution, found: Lineage) -> Tree:
    """Return the lineage as a tree whose last leaf is how the policy does."""
    history = found.history
    origin = history.task.origin
    if isinstance(origin, Seeded):
        root = Tree(f"seed {origin.source}")
        stem = root
    else:
        root = stem = (
            _signal(evolution, found.signal)
            if found.signal
            else Tree(f"signal {origin.signal_id}: no record of it")
        )
        if found.exploration:
            stem = _exploration(stem, found.exploration)
        if found.candidate:
            stem = _candidate(stem, found.candidate)
        _verdicts(stem, found.verdicts, found.probes)
    task = _task(stem, history)
    for fate in found.signals:
        task.add(_signal(evolution, fate))
    return root


def _signal(evolution: Evolution, fate: SignalFate) -> Tree:
    signal = fate.signal
    node = Tree(
        f"signal {signal.signal_id}: {signal.kind}, score {signal.score:.2f}, "
        f"version {signal.policy_version}"
    )
    node.add(about(evolution, fate))
    node.add(f"{signal.rule}; {counted(len(signal.evidence), 'rollout')} as evidence")
    node.add(became(fate))
    return node


def _exploration(stem: Tree, exploration: Exploration) -> Tree:
    reflection = exploration.reflection
    reflected = stem.add(f"reflection of {exploration.synthesizer}: {reflection.summary}")
    for name, text in (
        ("failure cause", reflection.failure_cause),
        ("instability", reflection.instability_pattern),
        ("explore again", ", ".join(reflection.focus_pattern)),
        ("avoid", ", ".join(reflection.avoid_pattern)),
    ):
        if text:
            reflected.add(f"{name}: {text}")
    explored = reflected.add(
        f"exploration {exploration.exploration_id} from {exploration.start}, "
        f"{counted(len(exploration.steps), 'step')}"
    )
    for step in exploration.steps:
        mark = " (failed)" if step.failed else ""
        explored.add(f"{step.text} -> {shortened(step.result)}{mark}")
    return explored


def _candidate(stem: Tree, candidate: AnyCandidate) -> Tree:
    asked = (
        changed(candidate.change)
        if isinstance(candidate, DesignCandidate)
        else counted(len(candidate.body.turns), "turn")
    )
    return stem.add(
        f"candidate {candidate.candidate_id} of {candidate.synthesizer}, "
        f"{asked}, version {candidate.policy_version}"
    )


def _verdicts(
    stem: Tree, verdicts: tuple[CandidateVerdict, ...], probes: tuple[ProbeReport, ...]
) -> None:
    for probe in probes:
        stem.add(f"probe at version {probe.policy_version}: {probe.successes}/{probe.rollouts}")
    for verdict in verdicts:
        match verdict.outcome:
            case Admitted() as admitted:
                said = (
                    f"admitted as {admitted.label}, "
                    f"{admitted.probe_successes}/{admitted.probe_rollouts} probes"
                )
            case Parked():
                said = "parked: the policy cannot do it yet"
            case Refused(gate=gate, found=found):
                said = f"refused by {gate}: {found}"
        node = stem.add(f"verdict at version {verdict.policy_version}: {said}")
        if verdict.opinion.judge:
            opinion = verdict.opinion
            view = "sound" if opinion.success else "unsound"
            node.add(f"{opinion.judge} thinks it {view}: {opinion.reason}")


def _task(stem: Tree, history: TaskHistory) -> Tree:
    node = stem.add(f"task {history.task.task_id}")
    if isinstance(history.task, CoverageTask):
        node.add(asks(history.task))
    else:
        _turns(node, history.task.body)
    node.add(f"trained on in steps: {steps(history) or 'none yet'}")
    visited = node.add("visits" if history.visits else "visits: none yet")
    for visit in history.visits:
        versions = f"version {visit.version_min}"
        if visit.version_max != visit.version_min:
            versions = f"versions {visit.version_min} to {visit.version_max}"
        void = f", {visit.void} void" if visit.void else ""
        visited.add(f"group {visit.group}, {versions}: {visit.successes}/{visit.rollouts}{void}")
    return node


def _turns(node: Tree, body: TaskBody) -> None:
    for number, turn in enumerate(body.turns, 1):
        calls = "; ".join(turn.reference) or "no call"
        node.add(f"turn {number}: {turn.instruction or '(reveals tools)'}\n{calls}")
