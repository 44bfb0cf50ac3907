"""The section on tasks: the life of one, and a table of all."""

from collections.abc import Container

from coevolve.history.differences import Suspect
from coevolve.history.lineage import LineageIndex
from coevolve.history.run_history import RunHistory, listed_note
from coevolve.report.figure import Table, code, folded, listed, missing, several
from coevolve.report.improvement import most_improved, points
from coevolve.report.links import to_rollouts, to_signal, to_task
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.sections.lives import SHORT, gaps_by_task, task_life, tools_told
from coevolve.report.unsolved import Doubt, doubts
from protocols.evolution import Anything, OnPattern, OnTask, Signal
from protocols.tasks import Seeded, Synthesized, Task

LISTED = 600
"""Maximum number of tasks in the table; the newest are shown."""


def lineage_section(data: RunHistory) -> Markup:
    """Return the life of the most visited synthesized task, and a table of all tasks.

    The page's script shows the life that a link names in its place.
    """
    title = "Tasks, and the life of one"
    evolution = data.evolution
    made = [t for t in evolution.tasks.values() if isinstance(t.origin, Synthesized)]
    if not made:
        none = missing("The loop has made no task yet.")
        shown = tag("div", id="life")
        line = f"{len(evolution.tasks)} tasks, all of them given."
        return folded("lineage", title, line, none, shown, *_suspects(data), *_all(data))
    example = max(made, key=lambda task: evolution.history(task.task_id).groups.groups)
    gap = gaps_by_task(data).get(example.task_id)
    note = (
        "From the signal to the newest success. Every link to a task or a signal shows its life "
        f"here; at first it is the task with the most groups.{listed_note(evolution)}"
    )
    life = task_life(data, evolution.lineage(example.task_id), gap)
    shown = tag("div", life, id="life", aria_live="polite")
    line = f"{len(evolution.tasks)} tasks, {len(made)} of them made."
    told = (tag("p", note), shown, *_suspects(data), *_all(data))
    return folded("lineage", title, line, *told)


def _suspects(data: RunHistory) -> list[Markup]:
    """Return a table of suspect tasks for each reason of doubt."""
    shown = {each.summary.root for each in data.sample.groups}
    tables = [_suspect_table(data, each, shown) for each in doubts(data)]
    return [tag("div", *tables, id="suspects")] if tables else []


def _suspect_table(data: RunHistory, doubt: Doubt, shown: Container[str]) -> Markup:
    rows = [
        [
            to_task(each.task_id),
            to_rollouts(each.task_id) if each.task_id in shown else "not in this page",
            "seed" if isinstance(_task(data, each).origin, Seeded) else "made",
            f"{each.successes} of {each.attempts}",
            str(len(data.evolution.history(each.task_id).trained)),
            f"Turn {each.turn} of {each.turns}",
            _asked(data, each),
            _call(data, each.reference),
            _call(data, each.otherwise),
            each.why,
        ]
        for each in doubt.suspects
    ]
    columns = (
        "task",
        "its rollouts",
        "origin",
        "successes",
        "steps that trained on it",
        "turn",
        "instruction",
        "reference",
        "otherwise",
        "why",
    )
    table = Table(doubt.title, columns, rows, words=len(columns))
    return listed(doubt.title, doubt.note, table)


def _asked(data: RunHistory, suspect: Suspect) -> str:
    """Return the instruction of the turn that fails."""
    turns = data.describe(_task(data, suspect)).turns
    return "not shown" if data.withheld else clipped(turns[suspect.turn - 1].instruction, SHORT)


def _task(data: RunHistory, suspect: Suspect) -> Task:
    return data.evolution.tasks[suspect.task_id]


def _call(data: RunHistory, call: str) -> str:
    if data.withheld:
        return "not shown"
    return code(clipped(call, SHORT)) if call else "no further call"


def _all(data: RunHistory) -> list[Markup]:
    tasks = list(data.evolution.tasks.values())
    if not tasks:
        return []
    shown = tasks[: -LISTED - 1 : -1]
    cut = "" if len(shown) == len(tasks) else f" The newest {LISTED} of {len(tasks)}."
    note = "The change is from the first group of rollouts on the task to the newest, in points."
    best = _most_improved(data)
    columns = (
        "task",
        "origin",
        "about",
        "made by",
        "label",
        "tools",
        "first instruction",
        "steps",
        "groups",
        "first success",
        "newest success",
        "change",
    )
    rows = [_row(data, task) for task in shown]
    table = Table("Tasks, the newest first", columns, rows, words=7, sortable=True)
    return [*best, listed("All tasks", note + cut, table)]


def _most_improved(data: RunHistory) -> list[Markup]:
    """Return a sentence on the tasks with the largest change."""
    best = most_improved(data).items()
    told = [joined([to_task(task_id), f" ({change:+.0f} points)"]) for task_id, change in best]
    words = "Most improved, of equals those with most groups: "
    return [tag("p", words, several(told), ".")] if told else []


def _row(data: RunHistory, task: Task) -> list[str]:
    evolution, text = data.evolution, data.describe(task)
    history, signal = evolution.history(task.task_id), _signal_of(evolution, task)
    groups = history.groups
    change = points(groups)
    return [
        to_task(task.task_id),
        to_signal(signal.signal_id, signal.kind) if signal else "seed",
        _about(signal),
        history.synthesizer,
        (history.label or "").replace("_", " "),
        clipped(tools_told(text), SHORT),
        clipped(text.headline, SHORT),
        str(len(history.trained)),
        str(groups.judged),
        f"{groups.first.successes}/{groups.first.rollouts}" if groups.judged else "",
        f"{groups.newest.successes}/{groups.newest.rollouts}" if groups.judged else "",
        f"{change:+.0f}" if groups.judged > 1 else "",
    ]


def _about(signal: Signal | None) -> Markup:
    match signal.about if signal else None:
        case OnTask(task_id=task_id):
            return to_task(task_id)
        case OnPattern(pattern=pattern):
            return code(clipped(pattern, SHORT))
        case Anything() | None:
            return Markup()


def _signal_of(evolution: LineageIndex, task: Task) -> Signal | None:
    origin = task.origin
    return evolution.signals.get(origin.signal_id) if isinstance(origin, Synthesized) else None
