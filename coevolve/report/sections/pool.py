"""What the policy trained on: seed tasks and synthesized ones over the steps."""

from collections import Counter

from coevolve.report.bar_chart import Layer, stacked_chart
from coevolve.report.figure import Table, figure, listed, missing, section
from coevolve.report.markup import Markup
from coevolve.report.report_data import ReportData
from coevolve.report.scales import bin_name, bins, percent
from protocols.tasks import Synthesized

COLUMNS = 40
SEED = "seed"
UNKNOWN = "unknown"
ORIGINS = {
    SEED: "seed tasks",
    "mastered": "made, mastered",
    "learnable": "made, learnable",
    "not_yet": "made, not yet",
    UNKNOWN: "made, unlabelled",
}
"""Where a trained group's task comes from; made ones by their label when they were admitted."""


def pool_section(data: ReportData) -> Markup:
    """Return what the training groups were about."""
    title = "Composition of the training groups"
    if not data.timeline.steps:
        return section("pool", title, missing("No step has been taken yet."))
    return section("pool", title, _share(data), _over_steps(data), _uses(data))


def composition(data: ReportData, periods: list[range]) -> dict[tuple[str, int], int]:
    """Return the training groups for each (origin, number of the period)."""
    counts: Counter[tuple[str, int]] = Counter()
    width = len(periods[0])
    for report in data.timeline.steps:
        for group in report.groups:
            counts[_origin(data, group.task_id), (report.step - periods[0][0]) // width] += 1
    return counts


def _origin(data: ReportData, task_id: str) -> str:
    task = data.evolution.tasks.get(task_id)
    if task is None or not isinstance(task.origin, Synthesized):
        return SEED
    return data.evolution.history(task_id).label or UNKNOWN


def _share(data: ReportData) -> Markup:
    costs = data.costs
    share = costs.synthesized_share
    return listed(
        "Share of synthesized tasks",
        f"{costs.synthesized_groups} of {costs.groups} training groups "
        f"({percent(share or 0.0)}) were about tasks that the loop made; "
        f"{costs.synthesized_tasks} such tasks joined {costs.seed_tasks} seed tasks.",
        Table(
            "Training tasks and groups",
            ["origin", "tasks", "training groups"],
            [
                ["seed", str(costs.seed_tasks), str(costs.groups - costs.synthesized_groups)],
                ["synthesized", str(costs.synthesized_tasks), str(costs.synthesized_groups)],
            ],
        ),
    )


def _over_steps(data: ReportData) -> Markup:
    steps = data.timeline.steps
    periods = bins(1, steps[-1].step, COLUMNS)
    names = [bin_name(period) for period in periods]
    counts = composition(data, periods)
    layers = [
        Layer(name=name, amounts=tuple(counts.get((key, i), 0) for i in range(len(periods))))
        for key, name in ORIGINS.items()
        if key == SEED or any(origin == key for origin, _ in counts)
    ]
    title = "Training groups by origin of their task"
    width = len(periods[0])
    per = "one step" if width == 1 else f"{width} steps"
    return figure(
        title,
        f"Each column is {per}. Made tasks carry the label of their probes at admission: "
        "always (mastered), sometimes (learnable) or never (not yet) solved.",
        stacked_chart(title, names, layers, across="step", up="groups"),
        Table(
            title,
            ["step", *(layer.name for layer in layers)],
            [[name, *(str(x.amounts[i]) for x in layers)] for i, name in enumerate(names)],
        ),
    )


def _uses(data: ReportData) -> Markup:
    uses = Counter(
        (_origin(data, group.task_id) == SEED, group.use)
        for report in data.timeline.steps
        for group in report.groups
    )
    kinds = ("policy_gradient", "imitation", "nothing")
    discarded = data.timeline.discarded
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(discarded.items()))
    return listed(
        "What the learner did with the groups",
        "Imitation of the reference where every rollout failed; nothing where all succeeded. "
        f"Discarded before any step: {said or 'none'}.",
        Table(
            "Training groups by use",
            ["origin", *(kind.replace("_", " ") for kind in kinds)],
            [
                [name, *(str(uses[seed, kind]) for kind in kinds)]
                for name, seed in (("seed", True), ("synthesized", False))
            ],
        ),
    )
