"""The section on the tasks that the policy trained on: seed and synthesized, over the steps."""

from collections import Counter

from coevolve.history.run_history import RunHistory
from coevolve.history.scales import bin_name, bins, percent
from coevolve.report.charts import Layer, stacked_figure
from coevolve.report.figure import Table, folded, listed
from coevolve.report.markup import Markup
from protocols.learner_config import LearnerConfig
from protocols.tasks import Synthesized

COLUMNS = 40
SEED = "seed"
UNKNOWN = "unknown"
ORIGINS = {
    SEED: "seed tasks",
    "mastered": "synthesized, mastered",
    "learnable": "synthesized, learnable",
    "not_yet": "synthesized, not yet",
    "unprobed": "synthesized, unprobed",
    UNKNOWN: "synthesized, unlabelled",
}
"""Origin of a training group's task; a synthesized task has its label at admission."""


def pool_section(data: RunHistory) -> Markup:
    """Return the origins and uses of the training groups."""
    title = "Composition of the training groups"
    if not data.timeline.steps:
        return folded("pool", title, "No step has been taken yet.")
    costs = data.costs
    line = (
        f"{costs.synthesized_groups} of {costs.groups} training groups "
        f"({percent(costs.synthesized_share or 0.0)}) were on synthesized tasks. The pool has "
        f"{costs.synthesized_tasks} synthesized tasks and {costs.seed_tasks} seed tasks."
    )
    return folded("pool", title, line, _over_steps(data), _uses(data))


def composition(data: RunHistory, periods: list[range]) -> dict[tuple[str, int], int]:
    """Return the number of training groups for each (origin, index of the period)."""
    counts: Counter[tuple[str, int]] = Counter()
    width = len(periods[0])
    for report in data.timeline.steps:
        for group in report.groups:
            counts[_origin(data, group.task_id), (report.step - periods[0][0]) // width] += 1
    return counts


def _origin(data: RunHistory, task_id: str) -> str:
    task = data.evolution.tasks.get(task_id)
    if task is None or not isinstance(task.origin, Synthesized):
        return SEED
    return data.evolution.history(task_id).label or UNKNOWN


def _over_steps(data: RunHistory) -> Markup:
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
    note = (
        f"Each column is {per}. A synthesized task has the label of its probes at admission: "
        "always solved (mastered), sometimes (learnable) or never (not yet); some have no probes."
    )
    return stacked_figure(title, note, names, layers, across="step", up="groups")


def _uses(data: RunHistory) -> Markup:
    uses = Counter(
        (_origin(data, group.task_id) == SEED, group.use)
        for report in data.timeline.steps
        for group in report.groups
    )
    kinds = ("policy_gradient", "imitation", "nothing")
    discarded = data.timeline.discarded
    gone = discarded.total()
    share = percent(gone / (gone + data.costs.groups)) if gone else ""
    reasons = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in discarded.most_common())
    return listed(
        "What the learner did with the groups",
        f"{rules(data.config.learner)} Discarded before any step: "
        + (f"{reasons}; {share} of all groups." if gone else "none."),
        Table(
            "Training groups by use",
            ["origin", *(kind.replace("_", " ") for kind in kinds)],
            [
                [name, *(str(uses[seed, kind]) for kind in kinds)]
                for name, seed in (("seed", True), ("synthesized", False))
            ],
        ),
    )


def rules(learner: LearnerConfig) -> str:
    """Return what a group gives a gradient for, by the run's settings."""
    if learner.imitation.weight:
        most = f"at most {percent(learner.imitation.success_share)} of"
        failed = f"{most} the rollouts succeeded" if learner.imitation.success_share else "all fail"
        reference = f"The learner imitates the reference if {failed}."
    else:
        reference = "Imitation is off (learner.imitation.weight: 0)."
    if learner.credit == "turn":
        gradient = (
            "The policy gradient compares the rollouts turn by turn (learner.credit: turn), so it "
            "also uses a group in which every rollout failed, if some passed a turn that others "
            "did not."
        )
    else:
        gradient = "The policy gradient uses a group if its rollouts have different rewards."
    return f"{reference} {gradient}"
