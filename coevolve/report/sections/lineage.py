"""The section on synthesized tasks: where each comes from, and what became of it."""

from collections.abc import Sequence
from itertools import zip_longest

from coevolve.report.charts import small_columns
from coevolve.report.figure import Table, code, listed, missing, section, several
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.report_data import NO_TOOL, ReportData, judged, listed_note
from coevolve.runs.histories import Lineage, TaskHistory
from coevolve.runs.lineage import LineageIndex
from protocols.evolution import (
    Admitted,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    OnPattern,
    OnTask,
    Parked,
    Refused,
    Signal,
)
from protocols.tasks import Synthesized, Task, TaskText

CHAINS = 6
"""Maximum number of tasks whose whole lineage is shown."""

LISTED = 400
"""Maximum number of synthesized tasks in the table; the newest are shown."""

STEPS = 16
"""Maximum number of calls shown of an exploration."""

TEXT = 300
SHORT = 90
"""Maximum characters of a long and of a short text, as shown."""


def lineage_section(data: ReportData) -> Markup:
    """Return some examples of whole lineages and a table of all synthesized tasks."""
    title = "Lineage of synthesized tasks"
    evolution = data.evolution
    made = [t for t in evolution.tasks.values() if isinstance(t.origin, Synthesized)]
    if not made:
        return section("lineage", title, missing("The loop has made no task yet."))
    chosen = exemplary(evolution, made)
    note = (
        "For each kind of signal, the tasks with the most groups of rollouts; at most "
        f"{CHAINS}, here {len(chosen)} of {len(made)}.{listed_note(evolution)}"
    )
    chains = [_chain(data, evolution.lineage(task.task_id)) for task in chosen]
    return section(
        "lineage", title, tag("h3", "Examples"), tag("p", note), *chains, _all(data, made)
    )


def exemplary(evolution: LineageIndex, made: Sequence[Task]) -> list[Task]:
    """Return at most `CHAINS` tasks; each kind of signal in turn gives its most visited task."""
    by_kind: dict[str, list[Task]] = {}
    for task in made:
        by_kind.setdefault(_kind(evolution, task), []).append(task)
    for tasks in by_kind.values():
        tasks.sort(key=lambda task: -evolution.history(task.task_id).groups.groups)
    rounds = zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [task for each in rounds for task in each if task][:CHAINS]


def _chain(data: ReportData, lineage: Lineage) -> Markup:
    task = lineage.history.task
    text = data.describe(task)
    parts: list[str] = []
    if lineage.signal:
        parts.append(_stage("signal", *_signal(data.evolution, lineage.signal.signal)))
    if lineage.exploration:
        parts.append(_stage("reflection", *_reflection(lineage.exploration)))
        parts.append(_stage("exploration", *_exploration(lineage.exploration)))
    if lineage.candidate:
        made_by = f"By {lineage.candidate.synthesizer}."
        parts.append(_stage("candidate", tag("p", made_by), _turn_list(text)))
    sentences = [tag("p", verdict_told(verdict)) for verdict in lineage.verdicts]
    parts.append(_stage("verdict", *sentences))
    parts.append(_stage("task", *_training(lineage.history)))
    head = tag("h4", code(task.task_id), ": ", _tools(text))
    return tag("article", head, tag("ol", *parts, class_="chain"))


def _stage(name: str, *children: str) -> Markup:
    return tag("li", tag("b", name), *(children or (tag("p", "Not on record."),)))


def _signal(evolution: LineageIndex, signal: Signal) -> list[str]:
    summary = (
        f"{signal.kind}, score {signal.score:.2f}, at policy version {signal.policy_version}, "
        f"based on {len(signal.evidence)} rollouts."
    )
    match signal.about:
        case OnTask(task_id=task_id):
            about: list[str] = [
                tag("p", "About the task ", code(task_id), ":"),
                _by_visit(evolution.visits.get(task_id, ()), "Success on the flagged task"),
            ]
        case OnPattern(kind=kind, pattern=pattern):
            text = clipped(pattern, SHORT)
            about = [tag("p", f"About the {kind.replace('_', ' ')} ", code(text), ".")]
    return [tag("p", summary), *about, tag("p", "Rule: ", clipped(signal.rule, TEXT))]


def _reflection(exploration: Exploration) -> list[str]:
    reflection = exploration.reflection
    texts = (
        ("summary", reflection.summary),
        ("failure cause", reflection.failure_cause),
        ("instability", reflection.instability_pattern),
        ("to explore", ", ".join(reflection.focus_pattern)),
        ("to avoid", ", ".join(reflection.avoid_pattern)),
    )
    terms = [
        joined([tag("dt", name), tag("dd", clipped(text, TEXT))])
        for name, text in texts
        if text.strip()
    ]
    return [tag("dl", *terms)] if terms else [tag("p", "The synthesizer wrote no reflection.")]


def _exploration(exploration: Exploration) -> list[str]:
    steps = [
        tag(
            "li",
            code(clipped(step.text, SHORT)),
            " failed: " if step.failed else " → ",
            code(clipped(step.result, SHORT)),
        )
        for step in exploration.steps[:STEPS]
    ]
    left = len(exploration.steps) - len(steps)
    more = [tag("p", f"{left} more calls.")] if left else []
    head = tag("p", "By ", exploration.synthesizer, ", from ", code(exploration.start), ":")
    return [head, tag("ol", *steps), *more]


def _turn_list(text: TaskText) -> Markup:
    if not text.turns:
        return tag("p", f"{text.headline.capitalize()}.")
    return tag(
        "ol",
        *(
            tag(
                "li",
                clipped(turn.instruction, TEXT),
                " ",
                several([code(clipped(call, SHORT)) for call in turn.calls] or ["no call"]),
            )
            for turn in text.turns
        ),
    )


def _tools(text: TaskText) -> str:
    return " → ".join(text.tools) or NO_TOOL


def verdict_told(verdict: CandidateVerdict) -> str:
    """Return the verdict as one sentence."""
    match verdict.outcome:
        case Admitted(label="unprobed"):
            return f"Admitted unprobed at policy version {verdict.policy_version}."
        case Admitted() as admitted:
            return (
                f"Admitted as {admitted.label.replace('_', ' ')}: "
                f"{admitted.probe_successes} of {admitted.probe_rollouts} probes succeeded "
                f"at policy version {verdict.policy_version}."
            )
        case Parked(probe_rollouts=rollouts):
            return (
                f"Parked: none of {rollouts} probes succeeded at policy version "
                f"{verdict.policy_version}."
            )
        case Refused(gate=gate, found=found):
            return f"Refused by the gate {gate.replace('_', ' ')}: {clipped(found, TEXT)}"


def _training(history: TaskHistory) -> list[str]:
    steps = [str(trained.step) for trained in history.trained]
    sentence = f"Trained on in {len(steps)} steps" + (f": {_newest(steps)}." if steps else ".")
    earlier = history.dropped
    counts = f"{earlier.groups} older groups: {earlier.successes} of {earlier.rollouts}."
    before = [tag("p", counts)] if earlier.groups else []
    return [*before, _by_visit(history.visits, "Success by group"), tag("p", sentence)]


def _by_visit(visits: Sequence[GroupSummary], title: str) -> Markup:
    seen = judged(visits)
    if not seen:
        return tag("p", "No group of rollouts is finished yet.")
    columns = [
        (f"version {v.version_max}: {v.successes} of {v.rollouts}", v.successes, v.rollouts)
        for v in seen
    ]
    shares = _newest([f"{v.successes}/{v.rollouts} (v{v.version_max})" for v in seen])
    return tag("p", small_columns(title, columns), f"{title}: {shares}", class_="visits")


def _newest(texts: Sequence[str], most: int = 24) -> str:
    shown = ", ".join(texts[-most:])
    return f"…, {shown}" if len(texts) > most else shown


def _all(data: ReportData, made: Sequence[Task]) -> Markup:
    shown = made[-LISTED:]
    cut = "" if len(shown) == len(made) else f"The newest {LISTED} of {len(made)}."
    columns = (
        "task",
        "signal",
        "about",
        "made by",
        "label",
        "tools",
        "first instruction",
        "steps",
        "groups",
        "first success",
        "newest success",
    )
    rows = [_row(data, task) for task in shown]
    return listed("All synthesized tasks", cut, Table("Synthesized tasks", columns, rows, words=7))


def _row(data: ReportData, task: Task) -> list[str]:
    evolution, text = data.evolution, data.describe(task)
    history = evolution.history(task.task_id)
    groups = history.groups
    return [
        code(clipped(task.task_id, SHORT)),
        _kind(evolution, task),
        _about(evolution, task),
        history.synthesizer,
        (history.label or "").replace("_", " "),
        clipped(_tools(text), SHORT),
        clipped(text.headline, SHORT),
        str(len(history.trained)),
        str(groups.judged),
        f"{groups.first.successes}/{groups.first.rollouts}" if groups.judged else "",
        f"{groups.newest.successes}/{groups.newest.rollouts}" if groups.judged else "",
    ]


def _kind(evolution: LineageIndex, task: Task) -> str:
    signal = _signal_of(evolution, task)
    return signal.kind if signal else ""


def _about(evolution: LineageIndex, task: Task) -> Markup:
    signal = _signal_of(evolution, task)
    match signal.about if signal else None:
        case OnTask(task_id=task_id):
            return code(clipped(task_id, SHORT))
        case OnPattern(pattern=pattern):
            return code(clipped(pattern, SHORT))
        case None:
            return Markup()


def _signal_of(evolution: LineageIndex, task: Task) -> Signal | None:
    origin = task.origin
    return evolution.signals.get(origin.signal_id) if isinstance(origin, Synthesized) else None
