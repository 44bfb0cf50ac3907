"""The first screen of the report: whether the run learned, its curve, its weaknesses, its tasks.

"Rose" and "fell" mean what they mean among the findings: the 95 % intervals do not overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from coevolve.history.curves import REWARD, trend
from coevolve.history.progress import HELD_OUT
from coevolve.history.run_history import RunHistory
from coevolve.history.score import Score, compared
from coevolve.history.series import RunSeries
from coevolve.history.stages import Milestone
from coevolve.report.estimates import Estimate, skill_map
from coevolve.report.figure import paragraphs, several
from coevolve.report.links import to, to_skill
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.pictures import Point, Stage, Trace, legend, plot, ranges, scored
from coevolve.report.sections.success import held_out_skills
from protocols.evolution import Admitted

ROWS = 9
"""Maximum number of skills in the picture; the weakest are shown."""

WEAKEST = 3
"""Maximum number of skills that the verdict names."""

SOLVED = 0.95
"""A skill with at least this share is not named as weak."""

TRENDS = {"up": "rises", "down": "falls", "level": "does not change"}


@dataclass(frozen=True)
class Weakness:
    """The success at one kind of task."""

    name: str
    first: float | None
    """Share at the first scored version, in [0, 1]; None if nothing is known of it."""

    newest: Estimate | Score
    is_skill: bool = True
    """Whether the section on skills has a row for it."""

    in_training: bool = False
    """Whether the share is that of the newest groups in training, not of held-out tasks."""

    @property
    def share(self) -> float:
        """The newest share, in [0, 1]."""
        return self.newest.share if isinstance(self.newest, Estimate) else self.newest.mean

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its 95 % interval."""
        if isinstance(self.newest, Estimate):
            return self.newest.interval
        return self.newest.low, self.newest.high


def opening(data: RunHistory) -> Markup:
    """Return the verdict and the pictures."""
    weak = weaknesses(data)
    return tag(
        "div",
        tag("p", *_verdict(data, weak), class_="verdict"),
        *_unscored(data),
        *paragraphs(data.progress.lesson()),
        tag("div", _curve(data), _weak(data, weak), _made(data), class_="opening"),
    )


def _unscored(data: RunHistory) -> list[str]:
    """Return that the newest version has no score, if it has none."""
    run = data.series[0].name if data.series else data.config.name
    words = data.progress.unscored(run)
    return paragraphs(f"{words[:1].upper()}{words[1:]}.") if words else []


def weaknesses(data: RunHistory) -> list[Weakness]:
    """Return the kinds of tasks, the lowest success first.

    They are the skills of the held-out tasks, or else the labels of these, or else the skills in
    training.
    """
    held_out = held_out_skills(data)
    again = len(data.timeline.evaluations) > 1
    found = [
        Weakness(name, first.share if again else None, newest)
        for name, (first, newest) in held_out.items()
    ]
    scores = data.progress.scores
    if not found and (versions := sorted(v for v in scores if scores[v])):
        first, newest = scores[versions[0]], scores[versions[-1]]
        known = {name: s.mean for name, s in first.items()} if len(versions) > 1 else {}
        names = [name for name in newest if name != "all"]
        found = [Weakness(name, known.get(name), newest[name], False) for name in names]
    if not found:
        skills = [each for each in skill_map(data).values() if each.newest.trials]
        found = [Weakness(each.name, None, each.newest, in_training=True) for each in skills]
    return sorted(found, key=lambda each: (each.share, each.name))


def _verdict(data: RunHistory, weak: Sequence[Weakness]) -> list[str]:
    scores = data.progress.held_out()
    measure = data.progress.measure
    ended = "" if data.timeline.finished else " so far"
    if not scores:
        return [tag("b", f"Not scored{ended}."), f" {_training(data)}", *_weakest(weak)]
    first, last = min(scores), max(scores)
    if first == last:
        once = tag("b", "Scored once, so nobody knows if it learned.")
        words = f" Held-out {measure} is {scores[last].percent} at version {last}. "
        return [once, words, _training(data), *_weakest(weak)]
    how = compared(scores[first], scores[last])
    said = {
        "rose": f"It learned{ended}",
        "fell": f"It got worse{ended}",
        "": f"Nothing learned beyond chance{ended}",
    }
    went = {"rose": "rose", "fell": "fell", "": "went"}[how]
    beyond = ", beyond chance" if how else ""
    return [
        tag("b", f"{said[how]}:"),
        f" held-out {measure} {went} from {100 * scores[first].mean:.1f} to {scores[last].percent}"
        f"{beyond}{_stages(data)}. ",
        *_weakest(weak),
    ]


def _stages(data: RunHistory) -> str:
    """Return how far the warm start and the loop moved the score, where both ends were scored."""
    found = pairwise(data.progress.stages.milestones(data.progress.held_out()))
    parts = [f"{_stage(b)} {_moved(data, a.version, b.version)}" for a, b in found]
    return f" ({', '.join(parts)})" if parts else ""


def _stage(end: Milestone) -> str:
    return end.when.removeprefix("after ").removeprefix("in ")


def _moved(data: RunHistory, first: int, last: int) -> str:
    if moved := data.timeline.moved(first, last):
        return moved.points
    scores = data.progress.held_out()
    return f"{100 * (scores[last].mean - scores[first].mean):+.1f} points"


def _training(data: RunHistory) -> str:
    if not data.timeline.steps:
        return "No step has been taken yet. "
    toward = trend(data.progress.curves.get(REWARD, ()))
    return f"The reward in training {TRENDS[toward]}. " if toward else ""


def _weakest(weak: Sequence[Weakness]) -> list[str]:
    low = [each for each in weak if each.share < SOLVED][:WEAKEST]
    if not low:
        return ["No skill is weak."] if weak else []
    named = [joined([_named(each), f" {100 * each.share:.0f} %"]) for each in low]
    where = " in training, over its newest groups" if low[0].in_training else ""
    return [tag("b", f"Weakest{where}:"), " ", several(named), "."]


def _named(each: Weakness) -> Markup:
    return to_skill(each.name) if each.is_skill else to("held-out", each.name)


def _panel(kind: str, title: str, *children: str) -> Markup:
    return tag("section", tag("h2", title), *children, class_=f"panel {kind}", aria_label=title)


def _curve(data: RunHistory) -> Markup:
    scores = data.progress.held_out()
    measure = data.progress.measure
    title = f"Held-out {measure} over steps"
    others = [_other(each, place, measure) for place, each in enumerate(data.series[1:], 1)]
    others = [each for each in others if each.points]
    name = data.series[0].name if data.series else data.config.name
    own = Trace(name, [scored(version, scores[version]) for version in sorted(scores)])
    traces, notes = [own, *others], [_scored_on(data)]
    if len(scores) < 2 and (trained := _trained(data)).points:
        traces.append(trained)
        notes.append("The thin line is the share of the rollouts in training that succeeded.")
    names = [legend(traces)] if len(traces) > 1 else []
    picture = plot(title, traces, across="step", last=data.timeline.step, stages=_parts(data))
    return _panel("curve-panel", title, picture, *names, *paragraphs(" ".join(notes)))


def _scored_on(data: RunHistory) -> str:
    scores = data.progress.held_out()
    if not scores:
        return "No version has been scored on held-out tasks."
    newest = scores[max(scores)]
    return (
        f"{newest.tasks} tasks that are never trained on; the band is one standard error over the "
        "choice of tasks."
    )


def _parts(data: RunHistory) -> list[Stage]:
    warm, last = data.progress.stages.last, data.timeline.step
    stages = [Stage("warm start", 0, warm), Stage("loop", warm, last)] if warm else []
    return [each for each in stages if each.last > each.first]


def _trained(data: RunHistory) -> Trace:
    """Return the share of successful rollouts of each step."""
    points: list[Point] = []
    for step in data.timeline.steps:
        tried = sum(group.rollouts for group in step.groups)
        if tried:
            share = sum(group.successes for group in step.groups) / tried
            points.append(Point(step.step, share, share, share))
    return Trace("in training", points, colour=6, thin=True)


def _other(series: RunSeries, place: int, measure: str) -> Trace:
    """Return the held-out scores of a run that is compared, from its metrics."""
    names = (f"val/{measure}/{label}" for label in (HELD_OUT, "all"))
    means = next((series.metrics[name] for name in names if name in series.metrics), None)
    if means is None:
        return Trace(series.name, [])
    points = [Point(x, y, y, y) for x, y in zip(means.steps, means.means, strict=True)]
    return Trace(series.name, points, colour=place, thin=True)


def _weak(data: RunHistory, weak: Sequence[Weakness]) -> Markup:
    title = "Weaknesses"
    if not weak:
        return _panel("weak-panel", title, *paragraphs("Nothing is known of any skill yet."))
    rows = [
        tag(
            "li",
            tag("span", _named(each), class_="name"),
            ranges(each.first, each.share, *each.ends),
            tag("b", f"{100 * each.share:.0f} %"),
            tag("small", "" if each.first is None else f"{100 * (each.share - each.first):+.0f}"),
        )
        for each in weak[:ROWS]
    ]
    left = len(weak) - ROWS
    where = "in the newest groups in training" if weak[0].in_training else "at the newest score"
    change = ", and the change in points since the first" if weak[0].first is not None else ""
    more = [f"{left} more are stronger: ", to("skills", "all skills"), "."] if left > 0 else []
    note = tag("p", f"Success {where}, lowest first, with its 95 % interval{change}. ", *more)
    return _panel("weak-panel", title, tag("ol", *rows, class_="weak"), note)


def _made(data: RunHistory) -> Markup:
    title = "Tasks that the loop made"
    candidates = sum(each.candidates for each in data.totals.synthesizers())
    if not data.config.synthesizes:
        return _panel("made-panel", title, *paragraphs("None: this arm makes no tasks."))
    admitted = data.costs.synthesized_tasks
    signals = sum(data.totals.signals.values())
    if not admitted:
        told = f"None was admitted: {signals} signals, {candidates} candidates."
        return _panel("made-panel", title, *paragraphs(told))
    share = data.costs.synthesized_share
    told = f"{admitted} of {candidates} candidates admitted, from {signals} signals" + (
        f"; {100 * share:.0f} % of the training groups are on them." if share else "."
    )
    trace = Trace("admitted", _admitted(data, admitted), colour=2)
    picture = plot(title, [trace], across="step", last=data.timeline.step, counts=True)
    return _panel("made-panel", title, picture, tag("p", told, " ", to("candidates", "Verdicts")))


def _admitted(data: RunHistory, every: int) -> list[Point]:
    """Return the number of admitted tasks after each step that admitted some.

    Those whose verdicts the journal has dropped count from the beginning.
    """
    newest = (verdicts[-1] for verdicts in data.evolution.verdicts.values())
    versions = sorted(each.policy_version for each in newest if isinstance(each.outcome, Admitted))
    count = max(0, every - len(versions))
    steps: dict[int, int] = {0: count}
    for version in versions:
        count += 1
        steps[version] = count
    steps.setdefault(max(data.timeline.step, 1), count)
    return [Point(step, n, 0.0, n) for step, n in sorted(steps.items())]
