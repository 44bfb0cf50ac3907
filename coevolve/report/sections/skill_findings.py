"""Findings on skills: what was learned, lost, never solved or forgotten, in sentences."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from coevolve.history.histories import SignalHistory
from coevolve.history.run_history import RunHistory, skills_of
from coevolve.report.estimates import (
    RECENT,
    Change,
    Estimate,
    Skill,
    change_of,
    flagged_skills,
    skill_map,
)
from coevolve.report.figure import several
from coevolve.report.links import to, to_signal, to_skill, to_task
from coevolve.report.losses import Loss, losses
from coevolve.report.markup import Markup, joined
from coevolve.report.sections.lives import order_told
from coevolve.report.sections.success import held_out_histories
from coevolve.report.sections.weaknesses import lost_all_the_same
from coevolve.report.sentences import NAMED, counted, more, sentence
from coevolve.report.unsolved import Attempts, doubted_skills, never_solved
from protocols.evolution import OnTask

WEAK = 0.2
"""A skill is weak if the upper end of its interval is below this share."""

TRIED = 16
"""Minimum number of attempts without success after which a skill counts as never solved: the upper
end of its interval is then below `WEAK`."""

History = Sequence[tuple[int, Estimate]]
"""(Version, success) on held-out tasks, in the order of versions; not empty."""


def skill_findings(data: RunHistory) -> Iterator[Markup]:
    """Return the sentences: on held-out tasks, in training, and on what was forgotten."""
    skills = skill_map(data)
    never = never_solved(data)
    held_out = held_out_histories(data)
    fallen = losses(data)
    unsolved = {name for name, each in held_out.items() if not any(x.count for _, x in each)}
    yield from _changes(held_out)
    yield from _largest_loss(data, fallen)
    yield from _never(data, skills, never)
    yield from _never_held_out(skills, {n: held_out[n] for n in unsolved - never.keys()})
    yield from _lowest(held_out, unsolved)
    yield from _weak([each for name, each in skills.items() if name not in never])
    yield from _forgotten(data, held_out, fallen)


def _changes(held_out: Mapping[str, History]) -> Iterator[Markup]:
    """Name the skills whose held-out intervals before and after do not overlap."""
    pairs = [(name, each[0], each[-1]) for name, each in held_out.items()]
    better = [(n, a, b) for n, a, b in pairs if a[1].is_below(b[1])]
    worse = [(n, a, b) for n, a, b in pairs if b[1].is_below(a[1])]
    for words, found in (("Learned", better), ("Lost", worse)):
        if found:
            found.sort(key=lambda x: (-abs(x[2][1].share - x[1][1].share), x[0]))
            yield sentence(
                f"{words} on held-out tasks, beyond chance, {counted(len(found), 'skill')}: ",
                several([_changed(*each) for each in found[:NAMED]]),
                more(len(found)),
                to("skills", "All skills"),
            )


def _changed(name: str, before: tuple[int, Estimate], after: tuple[int, Estimate]) -> Markup:
    (first, old), (last, new) = before, after
    change = f"{100 * old.share:.0f} to {100 * new.share:.0f} %, version {first} to {last}"
    return joined([to_skill(name), f" ({change})"])


def _largest_loss(data: RunHistory, found: Mapping[str, Loss]) -> Iterator[Markup]:
    """Name the largest fall of a skill between two scored versions, and what training saw of it."""
    for loss in list(found.values())[:1]:
        newest = loss.newest
        stays = "still below that, beyond chance" if loss.stays else "not below that, beyond chance"
        since = (
            ""
            if newest.version == loss.low.version
            else f"; {newest.text}, the newest, it is {stays}"
        )
        others = [to_skill(name) for name in list(found)[1 : NAMED + 1]]
        fell = joined([" Others fell too: ", several(others), more(len(found) - 1)])
        yield sentence(
            "Largest loss on held-out tasks: ",
            to_skill(loss.skill),
            f" fell by {loss.points:.0f} points, from {loss.high.text} to {loss.low.text}{since}. ",
            *_training_saw(data, loss.skill),
            fell if others else "",
            to("held-out", "Success by skill and version"),
        )


def _training_saw(data: RunHistory, skill: str) -> Iterator[str]:
    """Say whether the rule for forgetting, which looks at training alone, saw a loss of a skill."""
    if "forgetting" not in data.config.signals.kinds:
        yield "This run does not look for forgetting. "
        return
    signals = [
        each
        for each in data.evolution.signals.values()
        if each.kind == "forgetting" and skill in flagged_skills(data, each)
    ]
    if signals:
        links = [to_signal(each.signal_id) for each in signals[: -NAMED - 1 : -1]]
        left = f" and {len(signals) - NAMED} more" if len(signals) > NAMED else ""
        yield joined(["Forgotten on training tasks with it: ", several(links), f"{left}. "])
    else:
        yield "No signal of forgetting is about a training task with it. "


def _never(
    data: RunHistory, skills: Mapping[str, Skill], never: Mapping[str, Attempts]
) -> Iterator[Markup]:
    """Name the skills that were attempted often and never solved."""
    found = [(name, each) for name, each in never.items() if each.all >= TRIED]
    if found:
        found.sort(key=lambda pair: (-pair[1].all, pair[0]))
        yield sentence(
            f"Never solved, at no version, {counted(len(found), 'skill')}: ",
            several([_unsolved(data, skills[name], each) for name, each in found[:NAMED]]),
            more(len(found)),
            to("skills", "All skills"),
        )


def _unsolved(data: RunHistory, skill: Skill, attempts: Attempts) -> Markup:
    tested = any(skill.name in names for names in data.skills.values())
    held_out = (
        f"0 of {attempts.held_out} held out"
        if attempts.held_out
        else "no held-out attempt came to it"
        if tested
        else "no held-out task has it"
    )
    tried = f"0 of {attempts.trained} rollouts in training, {held_out}; {_effort(skill)}"
    return joined([to_skill(skill.name), f" ({tried}", _doubt(data, skill.name), ")"])


def _doubt(data: RunHistory, skill: str) -> Markup:
    """Name the suspect tasks whose doubtful turn exercises the skill; empty without any."""
    suspects = [each for each in data.suspects.values() if skill in doubted_skills(data, each)]
    if not suspects:
        return Markup()
    tasks = sum(skill in skills_of(data, task) for task in data.evolution.tasks.values())
    links = [to_task(each.task_id) for each in suspects[:NAMED]]
    left = f" and {len(suspects) - NAMED} more" if len(suspects) > NAMED else ""
    verb = "is" if len(suspects) == 1 else "are"
    return joined(
        [
            f"; of its {counted(tasks, 'training task')}, {len(suspects)} {verb} suspect: ",
            several(links),
            f"{left}; such a skill may come from a wrong task",
        ]
    )


def _never_held_out(skills: Mapping[str, Skill], found: Mapping[str, History]) -> Iterator[Markup]:
    """Name the skills that succeed in training, and on no held-out task at any version."""
    attempts = Counter({name: sum(x.trials for _, x in each) for name, each in found.items()})
    often = [name for name, count in attempts.items() if count >= TRIED]
    if often:
        often.sort(key=lambda name: (-attempts[name], name))
        yield sentence(
            f"Never solved on held-out tasks, at no version, {counted(len(often), 'skill')}: ",
            several([_unsolved_held_out(skills[name], attempts[name]) for name in often[:NAMED]]),
            more(len(often)),
            to("held-out", "Success by skill and version"),
        )


def _unsolved_held_out(skill: Skill, attempts: int) -> Markup:
    tried = f"0 of {attempts} attempts; {skill.newest.text} in its newest groups in training"
    return joined([to_skill(skill.name), f" ({tried}; {_effort(skill)})"])


def _lowest(held_out: Mapping[str, History], unsolved: Container[str]) -> Iterator[Markup]:
    """Name the skills that the newest scored version solves least, without those ``unsolved``."""
    newest = max((each[-1][0] for each in held_out.values()), default=0)
    scores = {name: each[-1][1] for name, each in held_out.items() if each[-1][0] == newest}
    mean = Estimate(sum(x.count for x in scores.values()), sum(x.trials for x in scores.values()))
    low = [n for n, x in scores.items() if x.interval[1] < mean.share and n not in unsolved]
    if low:
        low.sort(key=lambda name: (scores[name].share, name))
        yield sentence(
            f"Lowest on held-out tasks at version {newest}, beyond chance below all skills "
            f"together ({100 * mean.share:.0f} %), {counted(len(low), 'skill')}: ",
            several([joined([to_skill(n), f" ({scores[n].text})"]) for n in low[:NAMED]]),
            more(len(low)),
            to("held-out", "Success by skill and version"),
        )


def _weak(skills: Sequence[Skill]) -> Iterator[Markup]:
    """Name the skills that training has tried often and hardly ever solves."""
    weak = [each for each in skills if each.groups >= RECENT and each.newest.interval[1] < WEAK]
    if weak:
        weak.sort(key=lambda skill: (skill.newest.share, -skill.groups, skill.name))
        yield sentence(
            f"Still weak, in the newest {RECENT} groups of the skill: ",
            several([_still(each) for each in weak[:NAMED]]),
            more(len(weak)),
            to("skills", "All skills"),
        )


def _still(skill: Skill) -> Markup:
    tried = f"{skill.newest.count} of {skill.newest.trials} rollouts"
    return joined([to_skill(skill.name), f" ({tried}; {_effort(skill)})"])


def _effort(skill: Skill) -> str:
    """Return the groups and signals of a skill, and all made tasks that exercise it."""
    return (
        f"{counted(skill.groups, 'group')}; {counted(skill.signals.total(), 'signal')} about it, "
        f"{counted(skill.admitted, 'task')} admitted from these; "
        f"{counted(skill.tasks, 'made task')} in all exercise it"
    )


def _forgotten(
    data: RunHistory, held_out: Mapping[str, History], fallen: Container[str]
) -> Iterator[Markup]:
    signals = [each for each in data.evolution.signals.values() if each.kind == "forgetting"]
    if not signals:
        if "forgetting" in data.config.signals.kinds and data.evolution.visits:
            yield sentence(
                "On tasks that were attempted in training nothing was forgotten: success dropped "
                f"beyond chance on none of {len(data.evolution.visits)}. ",
                lost_all_the_same(data),
                to("weaknesses", "What was weak"),
            )
        return
    for signal in signals[: -NAMED - 1 : -1]:
        yield _forgot(data, data.evolution.signal_history(signal.signal_id), held_out, fallen)
    if len(signals) > NAMED:
        earlier = f"{len(signals) - NAMED} earlier tasks were forgotten too. "
        yield sentence(earlier, to("weaknesses", "All of them"))


def _forgot(
    data: RunHistory,
    history: SignalHistory,
    held_out: Mapping[str, History],
    fallen: Container[str],
) -> Markup:
    change = change_of(history, data.config.signals.window)
    names = flagged_skills(data, history.signal)
    about = history.signal.about
    admitted = len(history.tasks)
    done = (
        f"{counted(len(history.candidates), 'candidate')} made from it, {admitted} admitted"
        if history.candidates
        else f"no candidate was made ({history.outcome.replace('_', ' ')})"
    )
    return sentence(
        f"Forgotten at step {data.timeline.step_at(history.time_ns)}, on one task (",
        several(list(map(to_skill, names))) or "unknown skills",
        f"): success dropped from {change.before.text or 'an unknown value'} to "
        f"{change.now.text or 'less'}. Then: {done}; {_since(change, history)}. ",
        f"{order_told(data, history, about.task_id)} " if isinstance(about, OnTask) else "",
        _on_held_out({n: held_out[n] for n in names if n in held_out}, fallen),
        to_signal(history.signal.signal_id, "The signal"),
    )


def _since(change: Change, history: SignalHistory) -> str:
    if not change.after.trials:
        return "no group of the task was sampled since"
    how = "still below that, beyond chance" if change.is_below else "not below that, beyond chance"
    last = max(visit.version_max for visit in history.since)
    return (
        f"the newest groups of the task since then: {change.after.text}, {how}; it was last tried "
        f"at version {last}"
    )


def _on_held_out(held_out: Mapping[str, History], fallen: Container[str]) -> str:
    """Return the newest held-out success of skills; empty if none of them is held out."""
    if not held_out:
        return ""
    newest = ", ".join(f"{n} {x[-1][1].count}/{x[-1][1].trials}" for n, x in held_out.items())
    lost = ", ".join(name for name in held_out if name in fallen)
    fell = f"{lost} fell there beyond chance" if lost else "none of them ever fell beyond chance"
    return f"On held-out tasks, at the newest version: {newest}; {fell}. "
