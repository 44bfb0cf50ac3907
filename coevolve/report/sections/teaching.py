"""What the steps learned from: how much each source of gradient was there, and how far it moved."""

from coevolve.report.figure import Table, listed, missing, section
from coevolve.report.markup import Markup
from coevolve.report.report_data import ReportData
from coevolve.report.sections.machine import metrics_figure
from coevolve.runs import attribution

GROUPS = {"groups/informative": "policy gradient", "groups/imitated": "imitation"}
MOVEMENT = {
    "source/objective/movement_share": "policy gradient",
    "source/imitation/movement_share": "imitation and replay",
}
NORMS = {
    "source/objective/grad_norm": "policy gradient",
    "source/imitation/grad_norm": "imitation",
    "source/replay/grad_norm": "replay",
}
NOISE = {"gradient_noise/scale_groups": "noise scale"}
ENTROPY = {"actor/entropy": "entropy", "actor/kl_from_start": "divergence from the start"}


def teaching_section(data: ReportData) -> Markup:
    """Return what the steps learned from."""
    title = "What the steps learned from"
    if not data.timeline.steps:
        return section("teaching", title, missing("No step has been taken yet."))
    progress = data.progress
    shares = attribution.summary(data.config, progress, data.attribution)
    rows = [[what, value] for what, value in (*shares, *progress.teaching.lines())]
    return section(
        "teaching",
        title,
        listed(
            "Sources of gradient",
            "Shares of movement say how far a source moved the weights, not what it is worth: that "
            f"takes training without it, as `{attribution.COMMAND.format(run='RUN')}` does.",
            Table("Sources of gradient", ["what", "value"], rows),
        ),
        metrics_figure(
            data,
            GROUPS,
            "Groups of a step that teach something",
            "By a policy gradient where rollouts differ, by imitation where all failed.",
            "groups",
        ),
        metrics_figure(
            data,
            MOVEMENT,
            "Share of the weights' movement, by source",
            "Each source has an optimizer of its own; the shares add up to 1.",
            "share",
        ),
        metrics_figure(data, NORMS, "Gradient norm by source", "Before any clip.", "gradient norm"),
        metrics_figure(
            data,
            NOISE,
            "Gradient noise scale",
            "Groups at which noise and signal of the policy gradient are equally large.",
            "groups",
        ),
        metrics_figure(
            data,
            ENTROPY,
            "Entropy, and divergence from the start",
            "Per token that the policy wrote.",
            "nats",
        ),
        _canaries(data),
    )


def _canaries(data: ReportData) -> Markup:
    """Return the guard's scores, a row a version."""
    scores = data.progress.canaries
    title = "The guard's canary tasks"
    if not scores:
        return missing(f"{title}: no version was scored on them.")
    rows = [[str(version), f"{100 * scores[version]:.1f} %"] for version in sorted(scores)]
    note = "Neither trained on nor held out; the version of the highest score is the best one."
    return listed(title, note, Table(title, ["version", "score"], rows))
