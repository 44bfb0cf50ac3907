"""Signals and tasks in a few words, as tables and trees show them."""

from collections import Counter

from coevolve.environments.interface import Environment
from coevolve.runs.histories import SignalHistory, TaskHistory
from coevolve.runs.lineage import LineageIndex
from protocols.evolution import Admitted, GroupSummary, OnTask, Parked, Refused
from protocols.tasks import Continued, Seeded, Synthesized

INSTRUCTION = 60
"""Characters of an instruction that a table shows."""

VISITS = 4
"""Visits of a task that a table shows, the newest."""

STEPS = 6
"""Training steps that a table shows, the newest."""


def about(environment: Environment, evolution: LineageIndex, fate: SignalHistory) -> str:
    """Return what a signal is about: a task with what it asks for, or a pattern."""
    subject = fate.signal.about
    if not isinstance(subject, OnTask):
        return f"{subject.kind} {subject.pattern}"
    task = evolution.tasks.get(subject.task_id)
    first = f'\n"{shortened(environment.describe(task).headline)}"' if task else ""
    return f"task {subject.task_id}{first}"


def became(fate: SignalHistory) -> str:
    """Return in a few words what became of a signal, and of the task that it flagged."""
    lines: list[str] = []
    if fate.settled is None:
        lines.append(fate.outcome)
    elif not fate.candidates:
        reason = f": {fate.settled.reason}" if fate.settled.reason else ""
        lines.append(f"{fate.outcome.replace('_', ' ')}{reason}")
    if fate.candidates:
        verdicts = ", ".join(f"{count} {what}" for what, count in _verdicts(fate).items())
        lines.append(f"{counted(len(fate.candidates), 'candidate')}: {verdicts}")
    if fate.visits:
        successes = sum(visit.successes for visit in fate.visits)
        rollouts = sum(visit.rollouts for visit in fate.visits)
        lines.append(f"its tasks since: {successes}/{rollouts}")
    if fate.since:
        lines.append(f"flagged task: {scores(fate.before)}, since {scores(fate.since)}")
    return "\n".join(lines)


def scores(visits: tuple[GroupSummary, ...]) -> str:
    """Return successes of rollouts by visit, the newest `VISITS`, oldest first."""
    return " ".join(f"{visit.successes}/{visit.rollouts}" for visit in visits[-VISITS:])


def shortened(text: str) -> str:
    """Return ``text`` on one line, cut where it is too long for a table."""
    line = " ".join(text.split())
    return line if len(line) <= INSTRUCTION else f"{line[: INSTRUCTION - 3]}..."


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, for example ``2 turns``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def steps(history: TaskHistory) -> str:
    """Return the training steps that used a task; those that learnt nothing from it in brackets."""
    return " ".join(
        f"({each.step})" if each.use == "nothing" else str(each.step) for each in history.trained
    )


def newest_steps(history: TaskHistory) -> str:
    """Return the number of training steps that used a task, and the newest `STEPS` of them."""
    numbers = steps(history).split()
    if len(numbers) <= STEPS:
        return " ".join(numbers)
    return f"{len(numbers)}: ... {' '.join(numbers[-STEPS:])}"


def origin_of(evolution: LineageIndex, history: TaskHistory) -> str:
    """Return where a task comes from.

    Its source, the kind of its signal and who made it, or the rollout that it goes on from.
    """
    match history.task.origin:
        case Seeded(source=source):
            return f"seed {source}"
        case Synthesized(signal_id=signal_id):
            signal = evolution.signals.get(signal_id)
            return f"{signal.kind if signal else 'synthesized'} by {history.synthesizer}"
        case Continued(rollout=rollout):
            return f"continued {rollout}"


def _verdicts(fate: SignalHistory) -> Counter[str]:
    """Count the candidates by what the validator says, refusals by gate."""
    counts: Counter[str] = Counter()
    for verdict in fate.verdicts:
        match verdict.outcome:
            case Admitted():
                counts["admitted"] += 1
            case Parked():
                counts["parked"] += 1
            case Refused(gate=gate):
                counts[f"refused ({gate})"] += 1
    if unjudged := len(fate.candidates) - len(fate.verdicts):
        counts["not judged yet"] = unjudged
    return counts
