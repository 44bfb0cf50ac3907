"""The section with findings: sentences that follow from the run's records, each with its evidence.

A sentence appears only if there are records for it. "Rose" and "fell" mean that the 95 % intervals
of the two scores do not overlap; without that, a score has not changed beyond chance.
"""

from collections.abc import Iterator, Sequence

from coevolve.report.drawn import COMPUTE, STEP_TIMES, WAIT
from coevolve.report.estimates import (
    RECENT,
    Change,
    Estimate,
    Skill,
    change_of,
    flagged_skills,
    skill_map,
)
from coevolve.report.figure import missing, section, several
from coevolve.report.links import to, to_signal, to_skill, to_task
from coevolve.report.losses import losses
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.report_data import ReportData, skills_of
from coevolve.report.scales import percent
from coevolve.report.sections.lives import order_told
from coevolve.report.sections.success import gaps_of, held_out_histories, held_out_skills
from coevolve.report.sections.weaknesses import lost_all_the_same
from coevolve.report.unsolved import Attempts, doubts, never_solved
from coevolve.runs.histories import SignalHistory
from coevolve.runs.instance_gap import InstanceGap
from coevolve.runs.score import NORMAL, movement
from protocols.evolution import OnTask

TITLE = "Findings"
NAMED = 4
"""Maximum number of skills, tasks or signals that a sentence names."""

WEAK = 0.2
"""A skill is weak if the upper end of its interval is below this share."""

TRIED = 16
"""Minimum number of attempts without success after which a skill counts as never solved: the upper
end of its interval is then below `WEAK`."""

BALANCED = 1.5
"""Below this ratio of waiting and computing, neither alone sets the speed."""

EVENTS = ("does not serve the published version", "is worse than an earlier one", "no progress")
"""Parts of the names of events that are alarms."""


def findings_section(data: ReportData) -> Markup:
    """Return a list of sentences, the results first."""
    found = [
        *_scores(data),
        *_skills(data),
        *_largest_loss(data),
        *_never(data),
        *_never_held_out(data),
        *_weak(data),
        *_forgotten(data),
        *_made(data),
        *_contaminated(data),
        *_suspects(data),
        *_memorized(data),
        *_unmeasured(data),
        *_alarms(data),
        *_discarded(data),
        *_waited(data),
        *_chosen(data),
    ]
    if not found:
        return section("findings", TITLE, missing("There is no record yet to conclude from."))
    return section("findings", TITLE, tag("ul", *(tag("li", each) for each in found)))


def _scores(data: ReportData) -> Iterator[Markup]:
    scores = data.progress.held_out()
    if len(scores) < 2:
        return
    first, last = min(scores), max(scores)
    old, new = scores[first], scores[last]
    how = "rose" if new.low > old.high else "fell" if new.high < old.low else ""
    moved = f"{how} from" if how else "did not change beyond chance:"
    yield _told(
        f"Held-out {data.progress.measure} {moved} {old.percent} at version {first} to "
        f"{new.percent} at version {last}, on {new.tasks} tasks{_moved(data, first, last)}; ± is "
        "one standard error. ",
        to("held-out", "Scores by version"),
    )
    if lesson := data.progress.lesson():
        yield _told(f"{lesson}. ", to("teaching", "What the steps learned from"))


def _moved(data: ReportData, first: int, last: int) -> str:
    """Return the movement of the same tasks' scores between two versions, as text."""
    before, after = (
        {each.task_id: each.score for each in data.timeline.evaluations[version].scores}
        for version in (first, last)
    )
    moved = movement(before, after)
    return f": {moved.points}, task by task" if moved else ""


def _skills(data: ReportData) -> Iterator[Markup]:
    """Name the skills whose held-out intervals before and after do not overlap."""
    pairs = [(name, each[0], each[-1]) for name, each in held_out_histories(data).items()]
    better = [(n, a, b) for n, a, b in pairs if b[1].interval[0] > a[1].interval[1]]
    worse = [(n, a, b) for n, a, b in pairs if b[1].interval[1] < a[1].interval[0]]
    for words, found in (("Learned", better), ("Lost", worse)):
        if found:
            found.sort(key=lambda x: (-abs(x[2][1].share - x[1][1].share), x[0]))
            yield _told(
                f"{words} on held-out tasks, beyond chance, {_counted(len(found), 'skill')}: ",
                several([_changed(*each) for each in found[:NAMED]]),
                _more(len(found)),
                to("skills", "All skills"),
            )


def _largest_loss(data: ReportData) -> Iterator[Markup]:
    """Name the largest fall of a skill between two scored versions, and what training saw of it."""
    found = losses(data)
    for loss in list(found.values())[:1]:
        newest = loss.newest
        stays = "still below that, beyond chance" if loss.stays else "not below that, beyond chance"
        since = (
            ""
            if newest.version == loss.low.version
            else f"; {newest.text}, the newest, it is {stays}"
        )
        others = [to_skill(name) for name in list(found)[1 : NAMED + 1]]
        more = joined([" Others fell too: ", several(others), _more(len(found) - 1)])
        yield _told(
            "Largest loss on held-out tasks: ",
            to_skill(loss.skill),
            f" fell by {loss.points:.0f} points, from {loss.high.text} to {loss.low.text}{since}. ",
            *_training_saw(data, loss.skill),
            more if others else "",
            to("held-out", "Success by skill and version"),
        )


def _training_saw(data: ReportData, skill: str) -> Iterator[str]:
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


def _never(data: ReportData) -> Iterator[Markup]:
    """Name the skills that were attempted often and never solved."""
    found = [(name, each) for name, each in never_solved(data).items() if each.all >= TRIED]
    if found:
        found.sort(key=lambda pair: (-pair[1].all, pair[0]))
        skills = skill_map(data)
        yield _told(
            f"Never solved, at no version, {_counted(len(found), 'skill')}: ",
            several([_unsolved(data, skills[name], each) for name, each in found[:NAMED]]),
            _more(len(found)),
            to("skills", "All skills"),
        )


def _unsolved(data: ReportData, skill: Skill, attempts: Attempts) -> Markup:
    tried = f"0 of {attempts.trained} rollouts in training, " + (
        f"0 of {attempts.held_out} held out"
        if attempts.held_out
        else "and no held-out attempt came to it"
    )
    return joined([to_skill(skill.name), f" ({tried}; {_effort(skill)}{_doubted(data, skill)})"])


def _doubted(data: ReportData, skill: Skill) -> str:
    """Return how many tasks with the skill are suspect; empty if none is."""
    tasks = [data.evolution.tasks[each] for each in data.suspects]
    suspect = sum(skill.name in skills_of(data, task) for task in tasks)
    if not suspect:
        return ""
    told = "suspect task exercises it" if suspect == 1 else "suspect tasks exercise it"
    return f"; {suspect} {told}, so the skill itself may come from a wrong task"


def _never_held_out(data: ReportData) -> Iterator[Markup]:
    """Name the skills that succeed in training, and on no held-out task at any version."""
    never = never_solved(data)
    skills = skill_map(data)
    found: list[tuple[Skill, int]] = []
    for name, history in held_out_histories(data).items():
        attempts = sum(success.trials for _, success in history)
        passed = any(success.count for _, success in history)
        if not passed and attempts >= TRIED and name not in never:
            found.append((skills[name], attempts))
    if found:
        found.sort(key=lambda pair: (-pair[1], pair[0].name))
        yield _told(
            f"Never solved on held-out tasks, at no version, {_counted(len(found), 'skill')}: ",
            several([_unsolved_held_out(*each) for each in found[:NAMED]]),
            _more(len(found)),
            to("held-out", "Success by skill and version"),
        )


def _unsolved_held_out(skill: Skill, attempts: int) -> Markup:
    tried = f"0 of {attempts} attempts; {skill.newest.text} in its newest groups in training"
    return joined([to_skill(skill.name), f" ({tried}; {_effort(skill)})"])


def _weak(data: ReportData) -> Iterator[Markup]:
    """Name the skills that training has tried often and hardly ever solves."""
    never = never_solved(data)
    skills = [each for each in skill_map(data).values() if each.groups >= RECENT]
    weak = [each for each in skills if each.name not in never and each.newest.interval[1] < WEAK]
    weak.sort(key=lambda skill: (skill.newest.share, -skill.groups, skill.name))
    if weak:
        yield _told(
            f"Still weak, in the newest {RECENT} groups of the skill: ",
            several([_still(each) for each in weak[:NAMED]]),
            _more(len(weak)),
            to("skills", "All skills"),
        )


def _still(skill: Skill) -> Markup:
    tried = f"{skill.newest.count} of {skill.newest.trials} rollouts"
    return joined([to_skill(skill.name), f" ({tried}; {_effort(skill)})"])


def _effort(skill: Skill) -> str:
    """Return the signals about a skill, and all made tasks that exercise it, from any signal."""
    return (
        f"{_counted(skill.signals.total(), 'signal')} about it, "
        f"{_counted(skill.admitted, 'task')} admitted from these; "
        f"{_counted(skill.tasks, 'made task')} in all exercise it"
    )


def _forgotten(data: ReportData) -> Iterator[Markup]:
    signals = [each for each in data.evolution.signals.values() if each.kind == "forgetting"]
    if not signals:
        if "forgetting" in data.config.signals.kinds and data.evolution.visits:
            yield _told(
                "On tasks that were attempted in training nothing was forgotten: success dropped "
                f"beyond chance on none of {len(data.evolution.visits)}. ",
                lost_all_the_same(data),
                to("weaknesses", "What was weak"),
            )
        return
    for signal in signals[: -NAMED - 1 : -1]:
        yield _forgot(data, data.evolution.fate(signal.signal_id))
    if len(signals) > NAMED:
        told = f"{len(signals) - NAMED} earlier tasks were forgotten too. "
        yield _told(told, to("weaknesses", "All of them"))


def _forgot(data: ReportData, history: SignalHistory) -> Markup:
    change = change_of(history, data.config.signals.window)
    names = [to_skill(name) for name in flagged_skills(data, history.signal)]
    about = history.signal.about
    admitted = len(history.tasks)
    done = (
        f"{_counted(len(history.candidates), 'candidate')} made from it, {admitted} admitted"
        if history.candidates
        else f"no candidate was made ({history.outcome.replace('_', ' ')})"
    )
    return _told(
        f"Forgotten at step {data.timeline.step_at(history.time_ns)}, on one task of ",
        several(names) or "unknown skills",
        f": success dropped from {change.before.text or 'an unknown value'} to "
        f"{change.now.text or 'less'}. Then: {done}; {_since(change)}. ",
        f"{order_told(data, history, about.task_id)} " if isinstance(about, OnTask) else "",
        _on_held_out(data, flagged_skills(data, history.signal)),
        to_signal(history.signal.signal_id, "The signal"),
    )


def _since(change: Change) -> str:
    if not change.after.trials:
        return "no group of the task was sampled since"
    how = "still below that, beyond chance" if change.is_below else "not below that, beyond chance"
    return f"the newest groups of the task since then: {change.after.text}, {how}"


def _on_held_out(data: ReportData, skills: Sequence[str]) -> str:
    """Return the newest held-out success of skills; empty if none of them is held out."""
    newest = {name: each[1] for name, each in held_out_skills(data).items() if name in skills}
    told = ", ".join(f"{name} {each.count}/{each.trials}" for name, each in newest.items())
    return f"On held-out tasks, at the newest version: {told}. " if told else ""


def _made(data: ReportData) -> Iterator[Markup]:
    totals, costs = data.totals, data.costs
    made = totals.synthesizers()
    candidates = sum(each.candidates for each in made)
    if not candidates:
        return
    gates = totals.refusals()
    most = max(gates, key=lambda gate: gates[gate], default="")
    told = f", most of them by the gate {most.replace('_', ' ')}" if most else ""
    trained = costs.synthesized_share
    share = f" {percent(trained)} of the training groups were on such tasks." if trained else ""
    yield _told(
        f"From {_counted(sum(totals.signals.values()), 'signal')} the loop made "
        f"{_counted(candidates, 'candidate')}; admitted: {sum(each.admitted for each in made)}, "
        f"refused: {sum(each.refused for each in made)}{told}.{share} ",
        to("candidates", "Candidates and verdicts"),
    )


def _contaminated(data: ReportData) -> Iterator[Markup]:
    if count := data.totals.refusals().get("contaminated", 0):
        yield _told(
            f"Refused as contaminated, {_counted(count, 'candidate')}: too similar to a held-out "
            "task, so training on it would spoil the score. The page does not say which task, so "
            "that nobody writes training tasks after it. ",
            to("candidates", "Refused candidates"),
        )


def _suspects(data: ReportData) -> Iterator[Markup]:
    for doubt in doubts(data):
        yield _told(
            doubt.finding,
            several([to_task(each.task_id) for each in doubt.suspects[:NAMED]]),
            _more(len(doubt.suspects)),
            to("suspects", "Suspect tasks"),
        )


def _memorized(data: ReportData) -> Iterator[Markup]:
    trained, held_out = gaps_of(data, "trained"), gaps_of(data, "held_out")
    if not trained:
        return
    gap = trained[max(trained)]
    told = f"{100 * gap.mean:+.1f} ± {100 * gap.std_error:.1f} points"
    how = "more" if _is_large(gap, held_out.get(max(trained))) else "not more, beyond chance,"
    yield _told(
        f"Success on tasks that were trained on is {told} from that under other names, {how} than "
        "on held-out tasks: what is more is memorization. ",
        to("held-out", "Instance gap"),
    )


def _unmeasured(data: ReportData) -> Iterator[Markup]:
    if len(data.progress.held_out()) > 1 and not gaps_of(data, "trained"):
        yield _told(
            "Memorization was not measured: no version was scored on tasks that were trained on, "
            "once as they were and once under other names (evaluator.fresh). ",
            to("held-out", "Scores by version"),
        )


def _is_large(gap: InstanceGap, other: InstanceGap | None) -> bool:
    mean, error = (other.mean, other.std_error) if other else (0.0, 0.0)
    return gap.mean - mean > NORMAL * (gap.std_error**2 + error**2) ** 0.5


def _alarms(data: ReportData) -> Iterator[Markup]:
    happened = data.timeline.happenings
    alarms = [each for each in happened if any(words in each.what for words in EVENTS)]
    for each in alarms[-NAMED:]:
        details = f": {each.details}" if each.details else ""
        yield _told(f"Alarm after step {each.step}: {each.what}{details}. ", to("events", "Events"))
    restarts = sum(data.progress.restarts.values())
    if not alarms and not restarts and data.timeline.steps:
        yield _told(
            "No alarm and no restart is on record: no standstill, no wrong version in an engine, "
            "none that the guard found worse than an earlier one. ",
            to("events", "Events"),
        )
    if restarts:
        parts = ", ".join(f"{part} ({n})" for part, n in sorted(data.progress.restarts.items()))
        yield _told(
            f"Parts were restarted, {_counted(restarts, 'time')}: {parts}. ", to("events", "Events")
        )


def _discarded(data: ReportData) -> Iterator[Markup]:
    counts = data.timeline.discarded
    total = counts.total() + data.costs.groups
    if counts:
        reasons = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in counts.most_common())
        yield _told(
            f"{counts.total()} of {total} groups ({percent(counts.total() / total)}) were "
            f"discarded before any step: {reasons}. ",
            to("pool", "Training groups"),
        )


def _waited(data: ReportData) -> Iterator[Markup]:
    """Say how much of its time the learner waited and computed, if it waited for most of it."""
    totals = {
        metric: sum(data.timeline.columns[metric].values)
        for metric in STEP_TIMES
        if metric in data.timeline.columns
    }
    whole = sum(totals.values())
    waited, computed = totals.get(WAIT, 0.0), totals.get(COMPUTE, 0.0)
    if waited > whole / 2:
        close = waited < BALANCED * computed
        yield _told(
            f"The learner waited for groups of rollouts {percent(waited / whole)} of its time and "
            f"computed {percent(computed / whole)}: ",
            "both set the speed of this run. " if close else "rollouts set the speed. ",
            to("throughput", "Seconds per step"),
        )


def _chosen(data: ReportData) -> Iterator[Markup]:
    if best := data.progress.choice():
        yield _told(
            f"Best {best.sentence(data.progress.measure)}. Of equals the newest is the best. ",
            to("teaching", "How it was chosen"),
        )


def _changed(name: str, before: tuple[int, Estimate], after: tuple[int, Estimate]) -> Markup:
    (first, old), (last, new) = before, after
    told = f"{100 * old.share:.0f} to {100 * new.share:.0f} %, version {first} to {last}"
    return joined([to_skill(name), f" ({told})"])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f" and {count - NAMED} more. " if count > NAMED else ". "


def _told(*parts: str) -> Markup:
    return joined(parts)
