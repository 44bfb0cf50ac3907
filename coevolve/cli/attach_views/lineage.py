"""`attach lineage`: the origin of a task, and the policy's results on it so far."""

import difflib

from rich.tree import Tree

from coevolve.cli.attach_views.output import console, print_json
from coevolve.cli.attach_views.subject import Subject
from coevolve.cli.attach_views.words import about, became, counted, origin_of, shortened, steps
from coevolve.environments.interface import Environment
from coevolve.history.histories import Lineage, SignalHistory, TaskHistory
from coevolve.history.lineage import LineageIndex
from coevolve.history.related import Related
from coevolve.journal.lookups import all_of
from protocols.errors import RunError
from protocols.evolution import (
    Admitted,
    Candidate,
    CandidateVerdict,
    Exploration,
    Parked,
    ProbeReport,
    Refused,
)
from protocols.tasks import NEW_TASKS, Synthesized, Task, TaskText

NEAR = 5
"""Maximum number of ids that an error message lists."""


async def lineage(subject: Subject, task: str, *, as_json: bool) -> None:
    """Print the origin and the results of the task whose id begins with ``task``."""
    related = Related(subject.reader)
    if await related.add_lineage(task):
        task_id = task
    else:
        task_id = await _task_id(subject, task)
        await related.add_lineage(task_id)
    evolution = related.index()
    found = evolution.lineage(task_id)
    if as_json:
        print_json({"run": subject.name, "running": subject.running, "lineage": found})
        return
    out = console()
    out.print(subject.standing)
    out.print(_tree(subject.environment, evolution, found))


async def _task_id(subject: Subject, prefix: str) -> str:
    """Return the only id that begins with ``prefix``; this reads all tasks.

    Raises RunError if it is not unique.
    """
    tasks = all_of(subject.reader, Task)
    known = [each.task_id async for each in tasks if isinstance(each.origin, NEW_TASKS)]
    matches = [task for task in known if task.startswith(prefix)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        named = ", ".join(matches[:NEAR]) + (", ..." if len(matches) > NEAR else "")
        raise RunError(
            f"{subject.name}: {len(matches)} tasks begin with {prefix!r}: {named}; "
            "give a longer prefix"
        )
    near = difflib.get_close_matches(prefix, known, NEAR, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "`attach tasks` lists all tasks"
    raise RunError(f"{subject.name}: no task has an id that begins with {prefix!r}; {hint}")


def _tree(environment: Environment, evolution: LineageIndex, found: Lineage) -> Tree:
    """Return the lineage as a tree: the signal at the root, the task and its results as leaves."""
    history = found.history
    origin = history.task.origin
    if not isinstance(origin, Synthesized):
        root = stem = Tree(origin_of(evolution, history))
    else:
        root = stem = (
            _signal(environment, evolution, found.signal)
            if found.signal
            else Tree(f"signal {origin.signal_id}: not recorded")
        )
        if found.exploration:
            stem = _exploration(stem, found.exploration)
        if found.candidate:
            stem = _candidate(environment, stem, found.candidate)
        _verdicts(stem, found.verdicts, found.probes)
    task = _task(stem, history, environment.describe(history.task))
    for fate in found.signals:
        task.add(_signal(environment, evolution, fate))
    return root


def _signal(environment: Environment, evolution: LineageIndex, fate: SignalHistory) -> Tree:
    signal = fate.signal
    node = Tree(
        f"signal {signal.signal_id}: {signal.kind}, score {signal.score:.2f}, "
        f"version {signal.policy_version}"
    )
    node.add(about(environment, evolution, fate))
    node.add(f"{signal.rule}; {counted(len(signal.evidence), 'rollout')} as evidence")
    node.add(became(fate))
    return node


def _exploration(stem: Tree, exploration: Exploration) -> Tree:
    reflection = exploration.reflection
    reflected = stem.add(f"reflection of {exploration.synthesizer}: {reflection.summary}")
    for name, text in (
        ("failure cause", reflection.failure_cause),
        ("instability", reflection.instability_pattern),
        ("to explore", ", ".join(reflection.focus_pattern)),
        ("to avoid", ", ".join(reflection.avoid_pattern)),
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


def _candidate(environment: Environment, stem: Tree, candidate: Candidate) -> Tree:
    return stem.add(
        f"candidate {candidate.candidate_id} by {candidate.synthesizer}, "
        f"{environment.describe_candidate(candidate)}, version {candidate.policy_version}"
    )


def _verdicts(
    stem: Tree, verdicts: tuple[CandidateVerdict, ...], probes: tuple[ProbeReport, ...]
) -> None:
    for probe in probes:
        stem.add(f"probe at version {probe.policy_version}: {probe.successes}/{probe.rollouts}")
    for verdict in verdicts:
        match verdict.outcome:
            case Admitted(label="unprobed"):
                sentence = "admitted unprobed"
            case Admitted() as admitted:
                sentence = (
                    f"admitted as {admitted.label}, "
                    f"{admitted.probe_successes}/{admitted.probe_rollouts} probes"
                )
            case Parked():
                sentence = "parked: the policy does not solve it yet"
            case Refused(gate=gate, found=found):
                sentence = f"refused by {gate}: {found}"
        node = stem.add(f"verdict at version {verdict.policy_version}: {sentence}")
        if verdict.opinion.judge:
            opinion = verdict.opinion
            view = "sound" if opinion.success else "unsound"
            node.add(f"judge {opinion.judge}: {view}; {opinion.reason}")
        if verdict.reading.reader:
            reading = verdict.reading
            node.add(f"reader {reading.reader}: {reading.outcome}; {reading.found}")


def _task(stem: Tree, history: TaskHistory, text: TaskText) -> Tree:
    node = stem.add(f"task {history.task.task_id}")
    _turns(node, text)
    node.add(f"trained on in steps: {steps(history) or 'none yet'}")
    visited = node.add(_groups(history))
    for visit in history.visits:
        versions = f"version {visit.version_min}"
        if visit.version_max != visit.version_min:
            versions = f"versions {visit.version_min} to {visit.version_max}"
        errors = f", {visit.errors} failed" if visit.errors else ""
        visited.add(f"group {visit.group}, {versions}: {visit.successes}/{visit.rollouts}{errors}")
    return node


def _groups(history: TaskHistory) -> str:
    """Return the heading over the groups; it counts those whose summaries the journal dropped."""
    if dropped := history.dropped.groups:
        results = f"{history.dropped.successes}/{history.dropped.rollouts}"
        return f"groups, after {dropped} older ones with {results} that are not listed any more"
    return "groups" if history.visits else "groups: none yet"


def _turns(node: Tree, text: TaskText) -> None:
    if not text.turns:
        node.add(text.headline)
    for number, turn in enumerate(text.turns, 1):
        calls = "; ".join(turn.calls) or "no call"
        node.add(f"turn {number}: {turn.instruction or '(no instruction)'}\n{calls}")
