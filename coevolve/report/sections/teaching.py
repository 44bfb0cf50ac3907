"""The section on the sources of gradient: their amounts, and how far each moved the weights."""

from statistics import median

from coevolve.history.run_history import RunHistory
from coevolve.history.scales import number, percent
from coevolve.history.series import MOVED, NOISE_SCALE
from coevolve.report.figure import Table, folded, listed, missing
from coevolve.report.links import to
from coevolve.report.markup import Markup, tag
from coevolve.report.sections.pool import rules


def teaching_section(data: RunHistory) -> Markup:
    """Return the amount and the movement of each source of gradient."""
    title = "What the steps learned from"
    if not data.timeline.steps:
        return folded("teaching", title, "No step has been taken yet.")
    progress = data.progress
    best = progress.choice()
    chosen = [("best version", best.sentence(progress.measure))] if best else []
    facts = (*progress.result(), *chosen, *progress.teaching.lines(), *_usual_noise(data))
    rows = [[what, value] for what, value in facts]
    amounts = [x for x in progress.teaching.amounts() if x.token_share is not None]
    shares_told = ", ".join(f"{each.source} {percent(each.token_share or 0)}" for each in amounts)
    return folded(
        "teaching",
        title,
        f"Of the tokens: {shares_told}." if amounts else "Sources of gradient, canary tasks.",
        _sources(data),
        listed("Results", "", Table("Results", ["what", "value"], rows)),
        tag("p", f"{rules(data.config.learner)} ", to("metrics", "Curves of groups and norms")),
        _canaries(data),
    )


def _usual_noise(data: RunHistory) -> list[tuple[str, str]]:
    """Return the median of the gradient noise scale, beside which the newest value may be huge."""
    noise = data.timeline.columns.get(NOISE_SCALE)
    if not noise:
        return []
    what = f"gradient noise scale, median of {len(noise.values)} steps, groups"
    return [(what, number(median(noise.values)))]


def _sources(data: RunHistory) -> Markup:
    """Return the amount of each source, and how far they moved the weights."""
    amounts = data.progress.teaching.amounts()
    moved = movement_by_objective(data)
    rows = [
        [
            each.source,
            f"{each.groups} groups"
            if each.groups
            else f"{number(each.references)} references per step",
            percent(each.group_share) if each.groups else "",
            "" if each.token_share is None else percent(each.token_share),
            number(each.norm),
        ]
        for each in amounts
    ]
    told = (
        ""
        if moved is None
        else f" Of the weights' movement the policy gradient made {percent(moved)}, imitation and "
        f"replay together {percent(1 - moved)}, as they share an optimizer."
    )
    return listed(
        "Sources of gradient",
        "Imitation trains on what the policy did not write, such as references; replay imitates "
        f"those of earlier steps again.{told} A share of movement says how far a source moved the "
        "weights, not how much it helped.",
        Table(
            "Sources of gradient",
            ["source", "amount", "share of groups", "share of tokens", "mean gradient norm"],
            rows,
            words=2,
        ),
    )


def movement_by_objective(data: RunHistory) -> float | None:
    """Return the mean share of the weights' movement by the policy gradient; None if unknown."""
    teaching = data.progress.teaching
    known = MOVED in data.timeline.columns and teaching.steps
    return teaching.movement / teaching.steps if known else None


def _canaries(data: RunHistory) -> Markup:
    """Return the guard's scores, one row per version."""
    scores = data.progress.canaries
    title = "The guard's canary tasks"
    if not scores:
        return missing(f"{title}: no version has been scored on them.")
    rows = [[str(version), scores[version].percent] for version in sorted(scores)]
    note = (
        "Tasks that are neither trained on nor held out. The best version has the highest score, "
        "and is the newest of equals."
    )
    return listed(title, note, Table(title, ["version", "score"], rows))
