"""Short texts about signals and tasks, for tables and trees."""

from collections import Counter
from collections.abc import Sequence

from coevolve.environments.interface import Environment
from coevolve.history.group_totals import Score
from coevolve.history.histories import SignalHistory, TaskHistory
from coevolve.history.instance_gap import TaskGap
from coevolve.history.lineage import LineageIndex
from protocols.evolution import Admitted, Anything, GroupSummary, OnTask, Parked, Refused
from protocols.tasks import Continued, Instantiated, Seeded, Synthesized

INSTRUCTION = 60
"""Maximum characters of an instruction in a table."""

VISITS = 4
"""Maximum number of a task's groups in a table; the newest are shown."""

STEPS = 6
"""Maximum number of training steps in a table; the newest are shown."""


def about(environment: Environment, evolution: LineageIndex, fate: SignalHistory) -> str:
    """Return the subject of a signal: a task with its headline, or a pattern."""
    subject = fate.signal.about
    if isinstance(subject, Anything):
        return "anything"
    if not isinstance(subject, OnTask):
        return f"{subject.kind} {subject.pattern}"
    task = evolution.tasks.get(subject.task_id)
    first = f'\n"{shortened(environment.describe(task).headline)}"' if task else ""
    return f"task {subject.task_id}{first}"


def became(fate: SignalHistory) -> str:
    """Return the outcome of a signal, and the results on the task that it flagged."""
    lines: list[str] = []
    if fate.settled is None:
        lines.append(fate.outcome)
    elif not fate.candidates:
        reason = f": {fate.settled.reason}" if fate.settled.reason else ""
        lines.append(f"{fate.outcome.replace('_', ' ')}{reason}")
    if fate.candidates:
        verdicts = ", ".join(f"{count} {what}" for what, count in _verdicts(fate).items())
        lines.append(f"{counted(len(fate.candidates), 'candidate')}: {verdicts}")
    if (results := fate.results).rollouts:
        lines.append(f"its tasks since: {results.successes}/{results.rollouts}")
    if fate.since:
        lines.append(f"flagged task: {scores(fate.before)}, since {scores(fate.since)}")
    return "\n".join(lines)


def scores(visits: Sequence[GroupSummary | Score]) -> str:
    """Return successes/rollouts of the newest `VISITS` groups, oldest first."""
    return " ".join(f"{visit.successes}/{visit.rollouts}" for visit in visits[-VISITS:])


def gap_of(gap: TaskGap | None) -> str:
    """Return an instance gap in points, and the number of evaluations that measured it."""
    return f"{100 * gap.mean:+.0f} of {gap.evaluations}" if gap else ""


def shortened(text: str) -> str:
    """Return ``text`` on one line, cut to `INSTRUCTION` characters."""
    line = " ".join(text.split())
    return line if len(line) <= INSTRUCTION else f"{line[: INSTRUCTION - 3]}..."


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, for example ``2 turns``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def steps(history: TaskHistory) -> str:
    """Return the training steps that used a task; in brackets if they learned nothing from it."""
    return " ".join(
        f"({each.step})" if each.use == "nothing" else str(each.step) for each in history.trained
    )


def newest_steps(history: TaskHistory) -> str:
    """Return the newest `STEPS` training steps that used a task, after their total if more did."""
    numbers = steps(history).split()
    if len(numbers) <= STEPS:
        return " ".join(numbers)
    return f"{len(numbers)}: ... {' '.join(numbers[-STEPS:])}"


def origin_of(evolution: LineageIndex, history: TaskHistory) -> str:
    """Return the origin of a task.

    That is its source, its signal's kind and synthesizer, or the rollout that it continues.
    """
    match history.task.origin:
        case Seeded(source=source):
            return f"seed {source}"
        case Synthesized(signal_id=signal_id):
            signal = evolution.signals.get(signal_id)
            return f"{signal.kind if signal else 'synthesized'} by {history.synthesizer}"
        case Continued(rollout=rollout):
            return f"continued {rollout}"
        case Instantiated(instance=instance):
            return f"instance {instance}"


def _verdicts(fate: SignalHistory) -> Counter[str]:
    """Count the candidates by verdict, and refused ones by gate."""
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
