"""The section with a map of the skills: evidence, estimates, signals and tasks of each."""

from collections.abc import Mapping
from typing import get_args

from coevolve.history.run_history import RunHistory, listed_note
from coevolve.report.estimates import RECENT, Estimate, Skill, skill_map
from coevolve.report.figure import Table, folded, listed
from coevolve.report.links import skill_anchor
from coevolve.report.losses import Loss, losses
from coevolve.report.markup import Markup, tag
from coevolve.report.sections.success import held_out_skills
from protocols.evolution import SignalKind

TITLE = "Skills"
WIDTH, HEIGHT = 120, 14
"""Of the drawing of an interval, in pixels."""

NOTE = (
    f"Success in training is that of the newest {RECENT} groups on tasks with the skill; in the "
    "drawing the bar is its 95 % interval (Wilson), the dot the estimate, and the ring the first "
    f"{RECENT} groups. With {RECENT} groups or fewer there is no first estimate: too few to "
    "compare. The loop makes harder tasks as the policy improves, so held-out success is the "
    "fairer comparison; its largest loss, if any skill fell, is that between two scored versions "
    "whose intervals do not overlap. Admitted and refused are candidates from signals about the "
    "skill; made tasks with it are all, whatever signal they came from."
)


def skills_section(data: RunHistory) -> Markup:
    """Return a row for each skill, the lowest estimate first."""
    skills = skill_map(data)
    if not skills:
        return folded("skills", TITLE, "No task is known yet.")
    held_out = held_out_skills(data)
    fallen = losses(data)
    kinds = [k for k in get_args(SignalKind) if any(each.signals[k] for each in skills.values())]
    columns = (
        "skill",
        "0 to 100 %",
        "training, newest",
        "training, first",
        "held out, newest",
        "held out, first",
        *(["largest loss held out"] if fallen else []),
        "groups",
        *kinds,
        "made tasks with it",
        "admitted from its signals",
        "refused from its signals",
    )
    order = sorted(skills.values(), key=lambda s: (not s.newest.trials, s.newest.share, s.name))
    rows = [_row(skill, held_out, fallen, kinds) for skill in order]
    table = Table("Skills, the lowest success first", columns, rows, words=2, sortable=True)
    told = listed("Map of the skills", NOTE + listed_note(data.evolution), table)
    return folded("skills", TITLE, f"{len(skills)} skills: success, signals, made tasks.", told)


def _row(
    skill: Skill,
    held_out: dict[str, tuple[Estimate, Estimate]],
    fallen: Mapping[str, Loss],
    kinds: list[str],
) -> list[str]:
    loss = fallen.get(skill.name)
    first, newest = held_out.get(skill.name, (Estimate(0, 0), Estimate(0, 0)))
    counts = (*(skill.signals[kind] for kind in kinds), skill.tasks, skill.admitted, skill.refused)
    return [
        tag("span", skill.name, id=skill_anchor(skill.name)),
        _drawn(skill),
        skill.newest.text,
        skill.first.text if skill.groups > RECENT else "",
        newest.text,
        first.text,
        *([f"{loss.high.text} to {loss.low.text}" if loss else ""] if fallen else []),
        str(skill.groups),
        *map(str, counts),
    ]


def _drawn(skill: Skill) -> Markup:
    """Draw the interval; the numbers are in the next cells, so readers of screens skip it."""
    newest = skill.newest
    if not newest.trials:
        return Markup()
    low, high = (_across(end) for end in newest.interval)
    middle = HEIGHT / 2
    parts = [
        tag("line", x1=0, x2=WIDTH, y1=middle, y2=middle, class_="none"),
        tag("rect", x=low, width=high - low, y=middle - 3, height=6, class_="fill", opacity=0.4),
        tag("circle", cx=_across(newest.share), cy=middle, r=4, class_="fill"),
    ]
    if skill.groups > RECENT:
        first = _across(skill.first.share)
        parts.append(tag("circle", cx=first, cy=middle, r=4, class_="ring"))
    return tag("svg", *parts, width=WIDTH, height=HEIGHT, class_="small", aria_hidden="true")


def _across(share: float) -> float:
    return 5 + share * (WIDTH - 10)
