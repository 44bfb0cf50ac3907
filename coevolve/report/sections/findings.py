"""The section with findings: sentences that follow from the run's records, each with its evidence.

A sentence appears only if there are records for it. "Rose" and "fell" mean that the 95 % intervals
of the two scores do not overlap; without that, a score has not changed beyond chance.
"""

from collections.abc import Iterator, Sequence

from coevolve.history.differences import Suspect
from coevolve.history.instance_gap import memorized
from coevolve.history.run_history import RunHistory
from coevolve.history.scales import percent
from coevolve.history.score import compared
from coevolve.history.series import COMPUTE, STEP_TIMES, WAIT
from coevolve.history.timeline import Happening
from coevolve.report.figure import missing, section, several
from coevolve.report.links import to, to_task
from coevolve.report.losses import largest_fall
from coevolve.report.markup import Markup, joined, tag
from coevolve.report.refusals import CONTAMINATED, contamination_rules
from coevolve.report.sections.skill_findings import skill_findings
from coevolve.report.sections.success import gaps_of
from coevolve.report.sections.teaching import movement_by_objective
from coevolve.report.sentences import NAMED, counted, more, sentence
from coevolve.report.unsolved import doubted_skills, doubts

TITLE = "Findings"

SHOWN = 5
"""Number of findings that are not folded."""

BALANCED = 1.5
"""Below this ratio of waiting and computing, neither alone sets the speed."""

EVENTS = ("does not serve the published version", "is worse than an earlier one", "no progress")
"""Parts of the names of events that are alarms."""


def findings_section(data: RunHistory) -> Markup:
    """Return a list of sentences, the results first; those after the first `SHOWN` are folded."""
    found = [
        *_scores(data),
        *_staged(data),
        *_alarms(data),
        *skill_findings(data),
        *_made(data),
        *_contaminated(data),
        *_suspects(data),
        *_memorized(data),
        *_unmeasured(data),
        *_restarts(data),
        *_guarded(data),
        *_discarded(data),
        *_waited(data),
        *_sources(data),
        *_chosen(data),
    ]
    if not found:
        return section("findings", TITLE, missing("There is no record yet to conclude from."))
    shown, more = found[:SHOWN], found[SHOWN:]
    return section(
        "findings",
        TITLE,
        _list(shown),
        *([tag("details", tag("summary", f"{len(more)} more"), _list(more))] if more else []),
    )


def _list(found: Sequence[Markup]) -> Markup:
    return tag("ul", *(tag("li", each) for each in found), class_="findings")


def _scores(data: RunHistory) -> Iterator[Markup]:
    scores = data.progress.held_out()
    if len(scores) < 2:
        return
    first, last = min(scores), max(scores)
    old, new = scores[first], scores[last]
    how = compared(old, new)
    moved = f"{how} from" if how else "did not change beyond chance:"
    yield sentence(
        f"Held-out {data.progress.measure} {moved} {old.percent} at version {first} to "
        f"{new.percent} at version {last}, on {new.tasks} tasks{_moved(data, first, last)}. ± is "
        "one standard error over the choice of tasks, not over seeds. ",
        to("held-out", "Scores by version"),
    )
    if lesson := data.progress.lesson():
        yield sentence(f"{lesson}. ", to("teaching", "What the steps learned from"))


def _staged(data: RunHistory) -> Iterator[Markup]:
    """Tell the warm start and the loop apart."""
    stages = data.progress.stages
    if not (words := stages.line(data.config.learner.warm_start)):
        return
    found = stages.milestones(data.progress.held_out())
    told = ", ".join(each.words for each in found)
    measured = f" Held-out {data.progress.measure}: {told}." if told else ""
    moved = _moved(data, found[1].version, found[2].version) if len(found) > 2 else ""
    gain = f" Gain of the loop{moved}." if moved else ""
    yield sentence(f"Warm start: {words}.{measured}{gain} ", to("held-out", "Scores by version"))


def _moved(data: RunHistory, first: int, last: int) -> str:
    """Return the movement of the same tasks' scores between two versions, as text."""
    moved = data.timeline.moved(first, last)
    return f": {moved.points}, task by task" if moved else ""


def _made(data: RunHistory) -> Iterator[Markup]:
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
    yield sentence(
        f"From {counted(sum(totals.signals.values()), 'signal')} the loop made "
        f"{counted(candidates, 'candidate')}; admitted: {sum(each.admitted for each in made)}, "
        f"refused: {sum(each.refused for each in made)}{told}.{share} ",
        to("candidates", "Candidates and verdicts"),
    )


def _contaminated(data: RunHistory) -> Iterator[Markup]:
    if count := data.totals.refusals().get(CONTAMINATED, 0):
        rules = contamination_rules(data)
        named = ", ".join(f"{rule} ({n})" for rule, n in rules.most_common(NAMED))
        others = rules.total() - sum(n for _, n in rules.most_common(NAMED))
        left = f", others ({others})" if others else ""
        known = "" if rules.total() == count else f", of {rules.total()} that the journal has"
        yield sentence(
            f"Refused as contaminated, {counted(count, 'candidate')}, as training on such tasks "
            f"would spoil the held-out score; by rule{known}: {named or 'unknown'}{left}. "
            "The page does not say which held-out task, so that nobody writes training tasks after "
            "it. ",
            to("candidates", "Refused candidates"),
        )


def _suspects(data: RunHistory) -> Iterator[Markup]:
    for doubt in doubts(data):
        yield sentence(
            doubt.finding,
            several([_suspect(data, each) for each in doubt.suspects[:NAMED]]),
            more(len(doubt.suspects)),
            to("suspects", "Suspect tasks"),
        )


def _suspect(data: RunHistory, suspect: Suspect) -> Markup:
    skills = ", ".join(sorted(doubted_skills(data, suspect)))
    return joined([to_task(suspect.task_id), f" ({skills})"])


def _memorized(data: RunHistory) -> Iterator[Markup]:
    trained, held_out = gaps_of(data, "trained"), gaps_of(data, "held_out")
    if not trained:
        return
    newest = max(trained)
    gap = trained[newest]
    told = f"{100 * gap.mean:+.1f} ± {100 * gap.std_error:.1f} points"
    more = "; the gap of held-out tasks is not known, so this is not memorization alone. "
    if newest in held_out:
        found = memorized(gap, held_out[newest])
        chance = "" if found.is_certain else ", within chance"
        more = f". Minus the gap of held-out tasks, {found} are memorization{chance}. "
    yield sentence(
        f"Success on tasks that were trained on is {told} above that under other names{more}",
        to("held-out", "Instance gap"),
    )


def _unmeasured(data: RunHistory) -> Iterator[Markup]:
    if len(data.progress.held_out()) > 1 and not gaps_of(data, "trained"):
        yield sentence(
            "Memorization was not measured: no version was scored on tasks that were trained on, "
            "once as they were and once under other names (evaluator.fresh). ",
            to("held-out", "Scores by version"),
        )


def _alarms(data: RunHistory) -> Iterator[Markup]:
    for each in _alarming(data)[-NAMED:]:
        details = f": {each.details}" if each.details else ""
        yield sentence(f"Alarm after step {each.step}: {each.what}{details}. ", to("run", "Events"))


def _alarming(data: RunHistory) -> list[Happening]:
    happened = data.timeline.happenings
    return [each for each in happened if any(words in each.what for words in EVENTS)]


def _restarts(data: RunHistory) -> Iterator[Markup]:
    restarts = sum(data.progress.restarts.values())
    resumed = data.progress.starts.number - 1
    if not _alarming(data) and not restarts and resumed < 1 and data.timeline.steps:
        yield sentence(
            "No alarm and no restart is on record: no standstill, and no wrong version in an "
            "engine. ",
            to("run", "Events"),
        )
    if resumed > 0:
        yield sentence(f"The run was resumed, {counted(resumed, 'time')}. ", to("run", "Events"))
    if restarts:
        parts = ", ".join(f"{part} ({n})" for part, n in sorted(data.progress.restarts.items()))
        yield sentence(
            f"Parts were restarted, {counted(restarts, 'time')}: {parts}. ", to("run", "Events")
        )


def _guarded(data: RunHistory) -> Iterator[Markup]:
    """Say how often the guard went back to an earlier version, and the largest fall it saw."""
    scores = data.progress.canaries
    if len(scores) < 2:
        return
    found = data.progress.teaching.returns
    returned = sum(each.action == "return" for each in found)
    fall = largest_fall({version: each.mean for version, each in scores.items()})
    if fall:
        high, low = fall
        lost = 100 * (scores[high].mean - scores[low].mean)
        verdict = "a loss" if low in {each.version for each in found} else "no loss"
        told = (
            f"The largest fall is {lost:.0f} points, from {percent(scores[high].mean)} at version "
            f"{high} to {percent(scores[low].mean)} at version {low}: {verdict} by its rule. "
        )
    else:
        told = "No version scored below an earlier one. "
    yield sentence(
        f"The guard scored {len(scores)} versions on {scores[max(scores)].tasks} canary tasks, and "
        f"returned to an earlier version {counted(returned, 'time')}. {told}",
        to("teaching", "Canary tasks"),
    )


def _discarded(data: RunHistory) -> Iterator[Markup]:
    counts = data.timeline.discarded
    total = counts.total() + data.costs.groups
    if counts:
        reasons = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in counts.most_common())
        yield sentence(
            f"{counts.total()} of {total} groups ({percent(counts.total() / total)}) were "
            f"discarded before any step: {reasons}. ",
            to("pool", "Training groups"),
        )


def _waited(data: RunHistory) -> Iterator[Markup]:
    """Say how the learner spent its time, if it waited for groups or computed for most of it."""
    totals = {
        metric: sum(data.timeline.columns[metric].values)
        for metric in STEP_TIMES
        if metric in data.timeline.columns
    }
    whole = sum(totals.values())
    waited, computed = totals.get(WAIT, 0.0), totals.get(COMPUTE, 0.0)
    if max(waited, computed) <= whole / 2:
        return
    if max(waited, computed) < BALANCED * min(waited, computed):
        verdict = "nearly balanced"
    else:
        verdict = "groups came slower than it trained" if waited > computed else "it was the slower"
    yield sentence(
        f"The learner waited for groups of rollouts {percent(waited / whole)} of its time and "
        f"computed {percent(computed / whole)}: {verdict}. The wait includes the work on groups "
        "that were discarded. ",
        to("machine", "Seconds per step"),
    )


def _sources(data: RunHistory) -> Iterator[Markup]:
    """Tell the shares of the sources of gradient, if there are several."""
    amounts = data.progress.teaching.amounts()
    if len(amounts) < 2:
        return
    told: list[str] = []
    for each in amounts:
        shares = [f"{percent(each.group_share)} of the groups"] if each.groups else []
        if each.token_share is not None:
            shares.append(f"{percent(each.token_share)} of the tokens")
        told.append(f"{each.source}: {', '.join(shares)}")
    moved = movement_by_objective(data)
    movement = (
        ""
        if moved is None
        else f" Of the weights' movement the policy gradient made {percent(moved)}."
    )
    again = " Replay imitates references of earlier steps again." if amounts[-1].references else ""
    yield sentence(
        f"The steps learned from {'; '.join(told)}.{again}{movement} A share does not say "
        "how much a source helped. ",
        to("teaching", "What the steps learned from"),
    )


def _chosen(data: RunHistory) -> Iterator[Markup]:
    if best := data.progress.choice():
        yield sentence(
            f"Best {best.sentence(data.progress.measure)}. Of equals the newest is the best. ",
            to("teaching", "How it was chosen"),
        )
