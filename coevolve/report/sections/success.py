"""The section on success: on held-out tasks by policy version, and on training tasks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from coevolve.history.instance_gap import SIDES, InstanceGap, Side, instance_gaps
from coevolve.history.run_history import RunHistory, skills_of
from coevolve.history.scales import bin_name, bins, evenly
from coevolve.report.charts import WHOLE_PERCENT, Cell, Line, heat_map, line_chart
from coevolve.report.estimates import Estimate
from coevolve.report.figure import Table, figure, folded, missing
from coevolve.report.markup import Markup

Key = TypeVar("Key")

GAP_NOTES: Mapping[Side, tuple[str, str]] = {
    "held_out": ("Held-out tasks", ": what other names alone change."),
    "trained": (
        "Tasks that were trained on,",
        ". What is more than that of held-out tasks is memorization.",
    ),
}
"""Side -> the beginning of its chart's title, and the meaning of the gap."""

BARS = (
    "The band of “all” is a 95 % Wilson interval over the choice of tasks; the table has standard "
    "errors. The highest point of a curve is partly luck, and too high as a result."
)
"""Caption on the uncertainty of scores."""

PARTS = (
    " The other rows are parts of these tasks, as the environment names them; their names have "
    "nothing to do with kinds of signal."
)
"""Caption on scores by label."""

VERSIONS = 12
"""Maximum number of versions in a heat map: evenly spaced, the first and last included."""

PERIODS = 10
UNTRAINED = "No group has been trained on yet."

ROWS = 30
"""Maximum number of skills in a heat map; those with the most attempts are shown."""


def held_out_section(data: RunHistory) -> Markup:
    """Return the success on held-out tasks and in training."""
    title = "Success by version and skill"
    versions = len(data.timeline.evaluations)
    unscored = "No policy version has been scored yet."
    parts = [_over_steps(data)] if versions else [missing(unscored)]
    parts += [_gap_over_steps(side, gaps) for side in SIDES if (gaps := gaps_of(data, side))]
    if versions and data.progress.measure == "success" and data.skills:
        parts.append(_by_skill(data))
    line = f"{versions} scored versions, and the training tasks." if versions else unscored
    trained = _trained_by_skill(data) if data.timeline.steps else missing(UNTRAINED)
    return folded("held-out", title, line, *parts, trained)


def gaps_of(data: RunHistory, side: Side) -> dict[int, InstanceGap]:
    """Return the instance gap of one side by version, where it was measured."""
    found = {v: instance_gaps(each) for v, each in sorted(data.timeline.evaluations.items())}
    return {version: gaps[side] for version, gaps in found.items() if side in gaps}


def held_out_by_skill(data: RunHistory) -> dict[tuple[str, int], Cell]:
    """Return (passed, reached) turns for each (skill, scored version).

    An attempt reaches a turn if all turns before it passed. If a task does not declare one skill
    per turn, the whole task counts towards each of its skills.
    """
    cells: dict[tuple[str, int], Cell] = {}
    for version, evaluation in data.timeline.evaluations.items():
        for score in evaluation.scores:
            skills = data.skills.get(score.task_id, ())
            if len(skills) == score.turns_total:
                judged = [(skill, turn < score.turns_passed) for turn, skill in enumerate(skills)]
                judged = judged[: score.turns_passed + 1]
            else:
                passed = score.turns_passed == score.turns_total
                judged = [(skill, passed) for skill in dict.fromkeys(skills)]
            for skill, passed in judged:
                _add(cells, (skill, version), int(passed), 1)
    return cells


def held_out_histories(data: RunHistory) -> dict[str, list[tuple[int, Estimate]]]:
    """Return the (version, success) of each skill, in the order of versions.

    It is empty if the environment scores by another measure.
    """
    found: dict[str, list[tuple[int, Estimate]]] = {}
    if data.progress.measure != "success":
        return found
    cells = sorted(held_out_by_skill(data).items(), key=lambda cell: cell[0][1])
    for (name, version), (passed, reached) in cells:
        found.setdefault(name, []).append((version, Estimate(passed, reached)))
    return found


def held_out_skills(data: RunHistory) -> dict[str, tuple[Estimate, Estimate]]:
    """Return the success by skill of the first and the newest version that has it, likewise."""
    return {
        name: (history[0][1], history[-1][1]) for name, history in held_out_histories(data).items()
    }


def trained_by_skill(data: RunHistory, periods: Sequence[range]) -> dict[tuple[str, str], Cell]:
    """Return (successes, rollouts) for each (skill, period of steps)."""
    cells: dict[tuple[str, str], Cell] = {}
    tasks = data.evolution.tasks
    names = [bin_name(each) for each in periods]
    skills = {task_id: skills_of(data, task) for task_id, task in tasks.items()}
    for report in data.timeline.steps:
        name = names[(report.step - periods[0][0]) // len(periods[0])]
        for group in report.groups:
            for skill in skills.get(group.task_id, ()):
                _add(cells, (skill, name), group.successes, group.rollouts)
    return cells


def _over_steps(data: RunHistory) -> Markup:
    scores = data.progress.scores
    measure = data.progress.measure
    versions = sorted(data.timeline.evaluations)
    names = list(dict.fromkeys(name for version in versions for name in scores[version]))
    lines = [
        Line(
            name=name,
            points=tuple((v, scores[v][name].mean) for v in versions if name in scores[v]),
            bounds=tuple((scores[v][name].low, scores[v][name].high) for v in versions)
            if name == "all"
            else (),
            strong=name == "all",
        )
        for name in names
    ]
    rows = [
        [name, *(scores[v][name].percent if name in scores[v] else "" for v in versions)]
        for name in names
    ]
    tasks = len(data.timeline.evaluations[versions[-1]].scores)
    parts = PARTS if len(names) > 1 else ""
    if measure != "success":
        title, up = f"{measure.capitalize()} by policy version", "mean"
        caption = f"Values that the environment measured on {tasks} tasks. {BARS}{parts}"
    else:
        title, up = "Held-out success by policy version", "success"
        caption = (
            f"Greedy decoding on {tasks} tasks that are never trained on. A task counts if every "
            f"turn passed. {BARS}{parts}"
        )
    return figure(
        title,
        caption,
        line_chart(title, lines, across="policy version", up=up, high=1.0, form=WHOLE_PERCENT),
        Table(title, ["tasks", *(f"version {v}" for v in versions)], rows),
    )


def _gap_over_steps(side: Side, gaps: Mapping[int, InstanceGap]) -> Markup:
    name, meaning = GAP_NOTES[side]
    title = f"{name} under other names, by policy version"
    lines = [
        Line(name="as given", points=tuple((v, gap.given) for v, gap in gaps.items()), strong=True),
        Line(name="other names", points=tuple((v, gap.fresh) for v, gap in gaps.items())),
    ]
    rows = [[f"{v}", f"{100 * g.mean:+.1f}", f"{100 * g.std_error:.1f}"] for v, g in gaps.items()]
    return figure(
        title,
        f"The distance between the lines is the instance gap{meaning} The table has the gap's "
        "standard error over the choice of tasks.",
        line_chart(title, lines, across="policy version", up="mean", high=1.0, form=WHOLE_PERCENT),
        Table(title, ["version", "gap, points", "standard error"], rows),
    )


def _by_skill(data: RunHistory) -> Markup:
    cells = held_out_by_skill(data)
    versions = sorted({version for _, version in cells})
    shown = [versions[place] for place in evenly(len(versions), VERSIONS)]
    skills = sorted({skill for skill, _ in cells}, key=lambda name: _last(cells, name, shown))
    named = {(skill, str(version)): cell for (skill, version), cell in cells.items()}
    title = "Held-out success by skill and policy version, %"
    return figure(
        title,
        "Share of the reached turns of a skill that passed. Skills with the lowest newest share "
        "come first.",
        heat_map(title, skills, [str(v) for v in shown], named, across="policy version"),
        _cell_table(title, "skill", skills, [str(version) for version in versions], named),
    )


def _trained_by_skill(data: RunHistory) -> Markup:
    periods = bins(1, data.timeline.steps[-1].step, PERIODS)
    columns = [bin_name(each) for each in periods]
    cells = trained_by_skill(data, periods)
    attempts = Counter[str]()
    for (name, _), (_, count) in cells.items():
        attempts[name] += count
    names = sorted(attempts, key=lambda name: (-attempts[name], name))
    cut = f" The table shows the {ROWS} most frequent of {len(names)}." if len(names) > ROWS else ""
    title = "Training success by skill and step, %"
    return figure(
        title,
        "Rollouts of the groups that were trained on. A rollout counts towards each skill of its "
        f"task. The tasks change over the run, so a row may fall while the policy improves.{cut}",
        heat_map(title, names[:ROWS], columns, cells, across="step"),
        _cell_table(title, "skill", names, columns, cells),
    )


def _cell_table(
    title: str,
    what: str,
    names: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
) -> Table:
    def written(cell: Cell) -> str:
        return f"{cell[0]} of {cell[1]}" if cell[1] else ""

    rows = [[name, *(written(cells.get((name, c), (0, 0))) for c in columns)] for name in names]
    return Table(title, [what, *columns], rows)


def _last(
    cells: Mapping[tuple[str, int], Cell], skill: str, versions: Sequence[int]
) -> tuple[float, str]:
    """Return a sort key that orders skills by their newest share, lowest first."""
    found = [cells[skill, v] for v in versions if cells.get((skill, v), (0, 0))[1]]
    return (found[-1][0] / found[-1][1] if found else 0.0), skill


def _add(cells: dict[Key, Cell], key: Key, successes: int, attempts: int) -> None:
    before = cells.get(key, (0, 0))
    cells[key] = (before[0] + successes, before[1] + attempts)
