"""The section that answers which skill was weak, when, and what was done about it."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import get_args

from coevolve.history.histories import SignalHistory
from coevolve.history.run_history import RunHistory, judged
from coevolve.report.estimates import (
    Change,
    Estimate,
    PatternUse,
    change_of,
    flagged_skills,
    skill_map,
)
from coevolve.report.figure import Table, folded, listed, several
from coevolve.report.links import to_signal, to_skill, to_task
from coevolve.report.losses import losses
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.sections.signals import signals_told
from protocols.evolution import Admitted, Anything, OnPattern, OnTask, Parked, Refused, RuleKind

TITLE = "What was weak, and what was done about it"

ROWS = 200
"""Maximum number of signals of a kind in its table; the newest are shown."""

TASKS = 3
"""Maximum number of admitted tasks that a row names."""

LOST = 4
"""Maximum number of skills that a sentence on losses names."""

TEXT = 160

HEADINGS: dict[RuleKind, tuple[str, str]] = {
    "forgetting": (
        "Forgotten",
        "The success on a task dropped. The skills are those of the task; the reflection says in "
        "which turn attempts failed. Before: earlier groups of the task. When raised: the "
        "groups of the newest policy version then. Afterwards: its newest groups since.",
    ),
    "boundary": (
        "At the boundary",
        "The policy solves a task sometimes. The columns are as above.",
    ),
    "unsolved": (
        "Never solved",
        "No attempt at a task, or at what a turn calls, succeeded. Estimates of the latter "
        "are the share of groups in which some attempt passed it, up to the signal's policy "
        "version and afterwards; the other columns are as above.",
    ),
    "rare": (
        "Rarely used",
        "The policy hardly uses a pattern. Estimates are the share of groups that show it, up to "
        "the signal's policy version and afterwards.",
    ),
    "uncertainty": (
        "Uncertain",
        "The policy's own tokens have a low probability. The columns are as above.",
    ),
}
"""Kind of signal -> title and note of its table."""

COLUMNS = (
    "skill",
    "raised at step",
    "signal",
    "about",
    "before",
    "when raised",
    "reflection",
    "outcome",
    "admitted tasks",
    "refused",
    "afterwards",
)


def weaknesses_section(data: RunHistory) -> Markup:
    """Return a table for each kind of signal, after a sentence on what was forgotten."""
    signals = data.evolution.signals
    if not signals:
        return folded("weaknesses", TITLE, "No signal has been recorded.")
    patterns = [each.about for each in signals.values() if isinstance(each.about, OnPattern)]
    use = PatternUse(chain.from_iterable(map(judged, data.evolution.visits.values())), patterns)
    known = skill_map(data).keys()
    tables = [_of_kind(data, kind, use, set(known)) for kind in get_args(RuleKind)]
    kinds = ", ".join(f"{n} {kind}" for kind, n in data.totals.signals.items())
    told = (_forgotten(data), *signals_told(data), *filter(None, tables))
    return folded("weaknesses", TITLE, f"Signals: {kinds}.", *told)


def _forgotten(data: RunHistory) -> Markup:
    """Return a sentence that says what was forgotten, and whether it came back."""
    config = data.config.signals
    found = [each for each in data.evolution.signals.values() if each.kind == "forgetting"]
    if "forgetting" not in config.kinds:
        return tag("p", "This run does not look for forgetting.")
    if not found:
        return tag(
            "p",
            "No task was forgotten in training: on none did success drop beyond chance. ",
            lost_all_the_same(data),
        )
    skills = Counter(name for each in found for name in flagged_skills(data, each))
    changes = [
        change_of(data.evolution.signal_history(each.signal_id), config.window) for each in found
    ]
    unknown = sum(each.after.trials == 0 for each in changes)
    below = sum(each.is_below for each in changes)
    told = [joined([to_skill(name), f" ({count})"]) for name, count in skills.most_common()]
    return tag(
        "p",
        f"Forgotten, in {len(found)} signal{'s' if len(found) > 1 else ''}: ",
        several(told),
        f". Of the flagged tasks, {len(found) - below - unknown} are no longer below their earlier "
        f"success beyond chance, {below} still are, and {unknown} were not tried again.",
    )


def lost_all_the_same(data: RunHistory) -> Markup:
    """Return a sentence on losses that the rule for forgetting does not see; empty without any."""
    lost = list(losses(data))
    if not lost:
        return Markup()
    left = f" and {len(lost) - LOST} more" if len(lost) > LOST else ""
    return joined(
        [
            "The rule compares the groups of one training task with each other. On held-out tasks "
            "skills fell all the same: ",
            several([to_skill(name) for name in lost[:LOST]]),
            f"{left}. ",
        ]
    )


def _of_kind(data: RunHistory, kind: RuleKind, use: PatternUse, known: set[str]) -> Markup | None:
    found = [each for each in data.evolution.signals.values() if each.kind == kind]
    if not found:
        return None
    title, note = HEADINGS[kind]
    cut = f" The newest {ROWS} of {len(found)}." if len(found) > ROWS else ""
    rows = [
        _row(data, data.evolution.signal_history(s.signal_id), use, known)
        for s in found[: -ROWS - 1 : -1]
    ]
    table = Table(f"{title}: signals, the newest first", COLUMNS, rows, len(COLUMNS), sortable=True)
    return listed(title, note + cut, table)


def _row(data: RunHistory, history: SignalHistory, use: PatternUse, known: set[str]) -> list[str]:
    signal = history.signal
    change = change_at(data, history, use)
    admitted = [task.task.task_id for task in history.tasks]
    names = [to_skill(n) if n in known else n for n in flagged_skills(data, signal)]
    return [
        several(names) or "unknown",
        str(data.timeline.step_at(history.time_ns)),
        to_signal(signal.signal_id),
        _about(history),
        change.before.text,
        change.now.text,
        _reflection(history),
        _outcome(history),
        _tasks(admitted),
        _refusals(history),
        change.after.text or "not tried since",
    ]


def change_at(data: RunHistory, history: SignalHistory, use: PatternUse) -> Change:
    """Return the estimates around a signal."""
    match history.signal.about:
        case OnTask():
            return change_of(history, data.config.signals.window)
        case OnPattern() as about:
            return use.change(about, history.signal.policy_version)
        case Anything():
            nothing = Estimate(0, 0)
            return Change(nothing, nothing, nothing)


def _about(history: SignalHistory) -> str:
    match history.signal.about:
        case OnTask(task_id=task_id):
            return to_task(task_id)
        case OnPattern(kind=kind):
            return kind.replace("_", " ")
        case Anything():
            return "anything"


def _reflection(history: SignalHistory) -> str:
    if not history.explorations:
        return ""
    first = history.explorations[0].reflection
    told = " ".join(text for text in (first.summary, first.failure_cause) if text.strip())
    return clipped(told, TEXT) or f"none written; {len(history.explorations)} explorations"


def _outcome(history: SignalHistory) -> str:
    told = history.outcome.replace("_", " ")
    if not history.candidates:
        return told
    left = len(history.candidates) - len(history.verdicts)
    waiting = f", not judged: {left}" if left else ""
    return f"{told}; candidates: {len(history.candidates)}{waiting}"


def _tasks(admitted: Sequence[str]) -> str:
    links = [to_task(task_id) for task_id in admitted[:TASKS]]
    left = len(admitted) - len(links)
    return joined([several(links), f" and {left} more" if left else ""]) if links else "none"


def _refusals(history: SignalHistory) -> str:
    gates = Counter[str]()
    for verdict in history.verdicts:
        match verdict.outcome:
            case Refused(gate=gate):
                gates[gate.replace("_", " ")] += 1
            case Parked():
                gates["parked"] += 1
            case Admitted():
                pass
    return ", ".join(f"{count} {gate}" for gate, count in gates.most_common())
