"""The lives of signals and tasks: what led to each, what was found on the way, what became of it.

A page shows one life at a time. Its script takes the life that a link names from the page's data;
a board makes it from the run's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from coevolve.history.histories import Lineage, SignalHistory, TaskHistory
from coevolve.history.instance_gap import TaskGap, task_gaps
from coevolve.history.run_history import NO_TOOL, RunHistory, judged, skills_of
from coevolve.report.estimates import Estimate, change_of, flagged_skills, recovered_by
from coevolve.report.figure import code, several
from coevolve.report.improvement import most_improved
from coevolve.report.links import signal_anchor, task_anchor, to_signal, to_task
from coevolve.report.markup import Markup, clipped, joined, tag
from coevolve.report.pictures import spark
from protocols.evolution import (
    Admitted,
    Anything,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    OnPattern,
    OnTask,
    Parked,
    Refused,
)
from protocols.tasks import Seeded, Synthesized, TaskText

STEPS = 16
"""Maximum number of calls shown of an exploration."""

CORE = ("contradicted", "duplicate", "contaminated")
"""The gates that compare a candidate with other tasks; every environment has them."""

DRAWN = 48
"""Maximum number of groups in a curve of success; the newest are drawn."""

FIRST = 4
"""Maximum number of steps that the order of events names."""

TEXT = 300
SHORT = 90
"""Maximum characters of a long and of a short text, as shown."""

MOST_CHARACTERS = 800_000
"""Maximum length of the lives that a page holds. A board shows every life."""

CAUSES = ("forgetting", "unsolved", "uncertainty", "rare", "boundary", "cold_start")
"""Kinds of signal; a page holds the lives of the first ones before those of others."""


def lives_data(data: RunHistory) -> dict[str, str]:
    """Return lives by anchor: of suspects, their signals, tasks that the page names, then others.

    Signals come by `CAUSES`, the newest first, with their tasks.
    """
    gaps = gaps_by_task(data)
    found: dict[str, str] = {}
    characters = 0
    for anchor in _wanted(data):
        if anchor in found:
            continue
        life = life_at(data, anchor, gaps)
        characters += len(life)
        if characters > MOST_CHARACTERS:
            break
        found[anchor] = life
    return found


def gaps_by_task(data: RunHistory) -> Mapping[str, TaskGap]:
    """Return the instance gaps of the tasks that the run scored both ways."""
    evaluations = [each for each in data.timeline.evaluations.values() if each.trained]
    return task_gaps(evaluations, data.evolution.tasks) if evaluations else {}


def life_at(data: RunHistory, anchor: str, gaps: Mapping[str, TaskGap]) -> Markup:
    """Return the life of the signal or task at an anchor. Raises KeyError if there is none."""
    kind, _, quoted = anchor.partition("-")
    name = unquote(quoted)
    if kind == "signal":
        return signal_life(data, data.evolution.signal_history(name))
    return task_life(data, data.evolution.lineage(name), gaps.get(name))


def signal_life(data: RunHistory, history: SignalHistory) -> Markup:
    """Return a signal, its reflection, its candidates with their verdicts, and what followed."""
    signal = history.signal
    skills = ", ".join(flagged_skills(data, signal))
    judged_by = {verdict.candidate_id: verdict for verdict in history.verdicts}
    admitted = {
        each.task.origin.candidate_id: each
        for each in history.tasks
        if isinstance(each.task.origin, Synthesized)
    }
    candidates: list[str] = []
    for candidate in history.candidates:
        verdict, task = judged_by.get(candidate.candidate_id), admitted.get(candidate.candidate_id)
        told = verdict_told(verdict) if verdict else "Not judged yet."
        described = clipped(data.describe_candidate(candidate), TEXT)
        made = [" ", to_task(task.task.task_id)] if task else []
        candidates.append(tag("li", f"{described}: {told}", *made))
    parts = [
        _stage("signal", *_signal(data, history)),
        *_thoughts(history.explorations),
        _stage("candidates", _settled(history), tag("ol", *candidates) if candidates else ""),
        _stage("afterwards", *_afterwards(data, history)),
    ]
    return _life(tag("h3", "Signal ", code(signal.signal_id), f": {signal.kind}, {skills}"), parts)


def task_life(data: RunHistory, lineage: Lineage, gap: TaskGap | None) -> Markup:
    """Return a task from the signal that led to it up to its success under other names."""
    task = lineage.history.task
    text = data.describe(task)
    parts: list[str] = []
    if isinstance(task.origin, Seeded):
        parts.append(_stage("origin", tag("p", f"Came with the run: {task.origin.source}.")))
        parts.append(_stage("content", _turn_list(text)))
    if lineage.signal:
        name = lineage.signal.signal.signal_id
        link = tag("p", "The signal with its other candidates: ", to_signal(name))
        parts.append(_stage("signal", *_signal(data, lineage.signal), link))
    if lineage.exploration:
        parts += _thoughts([lineage.exploration])
    if lineage.candidate:
        made_by = f"By {lineage.candidate.synthesizer}."
        parts.append(_stage("candidate", tag("p", made_by), _turn_list(text)))
        parts.append(_stage("gates", *_gates(data, lineage)))
    parts.append(_stage("training", *_training(lineage.history)))
    parts.append(_stage("instance gap", tag("p", _gap(gap))))
    if lineage.signals:
        links = several([to_signal(each.signal.signal_id) for each in lineage.signals])
        parts.append(_stage("signals about it", tag("p", links)))
    if suspect := data.suspects.get(task.task_id):
        words = (
            f"{suspect.why} See turn {suspect.turn} of {suspect.turns}: either the task is wrong, "
        )
        parts.append(_stage("suspect", tag("p", words, "or what contradicts it.")))
    skills = ", ".join(skills_of(data, task))
    title = tag("h3", "Task ", code(task.task_id), f": {tools_told(text)}")
    return _life(title, [tag("li", tag("b", "skills"), tag("p", skills)), *parts])


def _wanted(data: RunHistory) -> Iterator[str]:
    evolution = data.evolution
    yield from map(task_anchor, data.suspects)
    for task_id in data.suspects:
        origin = evolution.tasks[task_id].origin
        if isinstance(origin, Synthesized) and origin.signal_id in evolution.signals:
            yield signal_anchor(origin.signal_id)
    yield from map(task_anchor, most_improved(data))
    newest = list(evolution.signals.values())[::-1]
    for signal in sorted(newest, key=lambda signal: CAUSES.index(signal.kind)):
        yield signal_anchor(signal.signal_id)
        if isinstance(signal.about, OnTask) and signal.about.task_id in evolution.tasks:
            yield task_anchor(signal.about.task_id)
        for task in evolution.signal_history(signal.signal_id).tasks:
            yield task_anchor(task.task.task_id)
    yield from map(task_anchor, reversed(evolution.tasks))


def _life(title: Markup, parts: Sequence[str]) -> Markup:
    return tag("article", title, tag("ol", *parts, class_="chain"))


def _stage(name: str, *children: str) -> Markup:
    return tag("li", tag("b", name), *(children or (tag("p", "Not on record."),)))


def _signal(data: RunHistory, history: SignalHistory) -> list[str]:
    signal = history.signal
    summary = (
        f"{signal.kind.capitalize()}, raised at step {data.timeline.step_at(history.time_ns)}, "
        f"score {signal.score:.2f}, at policy version {signal.policy_version}, "
        f"based on {len(signal.evidence)} rollouts."
    )
    match signal.about:
        case OnTask(task_id=task_id):
            visits = data.evolution.visits.get(task_id, ())
            change = change_of(history, data.config.signals.window)
            told = f"Before: {change.before.text or 'no group'}. When raised: {change.now.text}."
            about: list[str] = [
                tag("p", "About the task ", to_task(task_id), ". ", told),
                _by_visit(visits, "Success on the flagged task"),
            ]
        case Anything():
            about = []
        case OnPattern(kind=kind, pattern=pattern):
            text = clipped(pattern, SHORT)
            about = [tag("p", f"About the {kind.replace('_', ' ')} ", code(text), ".")]
    return [tag("p", summary), *about, tag("p", "Rule: ", clipped(signal.rule, TEXT))]


def _settled(history: SignalHistory) -> Markup:
    told = history.outcome.replace("_", " ").capitalize()
    reason = history.settled.reason if history.settled else ""
    return tag("p", f"{told}{': ' + reason if reason else ''}.")


def _afterwards(data: RunHistory, history: SignalHistory) -> list[str]:
    results = history.results
    made = Estimate(results.successes, results.rollouts)
    told = [f"On the tasks made from it: {made.text or 'no group yet'}."]
    if isinstance(history.signal.about, OnTask):
        after = change_of(history, data.config.signals.window).after
        told.insert(0, f"On the flagged task: {after.text or 'not tried since'}.")
        told.append(order_told(data, history, history.signal.about.task_id))
    return [tag("p", each) for each in told]


def order_told(data: RunHistory, history: SignalHistory, task_id: str) -> str:
    """Return in which order a flagged task was flagged, trained on and solved again.

    The tasks that were made from the signal are in it, too; the reader judges what caused what.
    """
    raised = data.timeline.step_at(history.time_ns)
    trained = (
        {each.step for each in data.evolution.history(task_id).trained}
        if task_id in data.evolution.tasks
        else set[int]()
    )
    made = {each.step for task in history.tasks for each in task.trained}
    again = recovered_by(history, data.config.signals.window)
    back = (
        f"a first group within chance of its earlier success at version {again.version_max} "
        f"({again.successes}/{again.rollouts})"
        if again
        else "no group since is within chance of its earlier success"
    )
    return (
        f"In order: flagged at step {raised}; the task itself trained on "
        f"{_steps_after(trained, raised)}; tasks made from the signal trained on "
        f"{_steps_after(made, raised)}; {back}. "
        "The order alone does not show what helped."
    )


def _steps_after(steps: Iterable[int], raised: int) -> str:
    later = [str(step) for step in sorted(steps) if step > raised]
    if not later:
        return "at no step since"
    left = len(later) - FIRST
    more = f" and {left} more" if left > 0 else ""
    return f"at step{'s' if len(later) > 1 else ''} {', '.join(later[:FIRST])}{more}"


def _thoughts(explorations: Sequence[Exploration]) -> list[str]:
    """Return the stages of reflection and exploration; equal reflections are shown once."""
    parts: list[str] = []
    told: list[Markup] = []
    for each in explorations:
        reflection = _reflection(each)
        if reflection not in told:
            told.append(reflection)
            parts.append(_stage("reflection", reflection))
        parts.append(_stage("exploration", *_exploration(each)))
    return parts


def _gates(data: RunHistory, lineage: Lineage) -> list[str]:
    """Return the evidence on a candidate that became a task: gates, probes, reading, verdicts."""
    order = ", ".join(each.replace("_", " ") for each in dict.fromkeys((*data.gate_order, *CORE)))
    told = [f"None of the gates refused it: {order}."]
    told += [
        f"Probe at policy version {probe.policy_version}: {probe.successes} of {probe.rollouts} "
        "succeeded."
        for probe in lineage.probes
    ]
    for verdict in lineage.verdicts:
        reading, opinion = verdict.reading, verdict.opinion
        if reading.reader:
            told.append(
                f"Reader {reading.reader}: {reading.outcome}; {clipped(reading.found, TEXT)} "
                f"(agreement {reading.agreement:.2f}, {_limit(data)})"
            )
        if opinion.judge:
            view = "sound" if opinion.success else "unsound"
            told.append(f"Judge {opinion.judge}: {view}; {clipped(opinion.reason, TEXT)}")
        told.append(f"{verdict_told(verdict)} {verdict.simulator_calls} simulator calls.")
    return [tag("p", each) for each in dict.fromkeys(told)]


def _limit(data: RunHistory) -> str:
    """Return from which agreement on a reader confirms."""
    limit = data.config.validator.agreement
    if not limit:
        return "which confirms from the reader's own limit on, as validator.agreement is 0"
    return f"which confirms from {limit:.2f} on (validator.agreement)"


def _gap(gap: TaskGap | None) -> str:
    if gap is None:
        return "Not scored under other names."
    return (
        f"{100 * gap.mean:+.1f} points between the task and its instances under other names, mean "
        f"of {gap.evaluations} evaluations."
    )


def _reflection(exploration: Exploration) -> Markup:
    reflection = exploration.reflection
    texts = (
        ("summary", reflection.summary),
        ("failure cause", reflection.failure_cause),
        ("instability", reflection.instability_pattern),
        ("to explore", ", ".join(reflection.focus_pattern)),
        ("to avoid", ", ".join(reflection.avoid_pattern)),
    )
    terms = [
        joined([tag("dt", name), tag("dd", clipped(text, TEXT))])
        for name, text in texts
        if text.strip()
    ]
    return tag("dl", *terms) if terms else tag("p", "The synthesizer wrote no reflection.")


def _exploration(exploration: Exploration) -> list[str]:
    steps = [
        tag(
            "li",
            code(clipped(step.text, SHORT)),
            " failed: " if step.failed else " → ",
            code(clipped(step.result, SHORT)),
        )
        for step in exploration.steps[:STEPS]
    ]
    left = len(exploration.steps) - len(steps)
    more = [tag("p", f"{left} more calls.")] if left else []
    head = tag("p", "By ", exploration.synthesizer, ", from ", code(exploration.start), ":")
    return [head, tag("ol", *steps), *more]


def _turn_list(text: TaskText) -> Markup:
    if not text.turns:
        return tag("p", f"{text.headline.capitalize()}.")
    return tag(
        "ol",
        *(
            tag(
                "li",
                clipped(turn.instruction, TEXT),
                " ",
                several([code(clipped(call, SHORT)) for call in turn.calls] or ["no call"]),
            )
            for turn in text.turns
        ),
    )


def tools_told(text: TaskText) -> str:
    """Return the tools of a task in order."""
    return " → ".join(text.tools) or NO_TOOL


def verdict_told(verdict: CandidateVerdict) -> str:
    match verdict.outcome:
        case Admitted(label="unprobed"):
            return f"Admitted unprobed at policy version {verdict.policy_version}."
        case Admitted() as admitted:
            return (
                f"Admitted as {admitted.label.replace('_', ' ')}: "
                f"{admitted.probe_successes} of {admitted.probe_rollouts} probes succeeded "
                f"at policy version {verdict.policy_version}."
            )
        case Parked(probe_rollouts=rollouts):
            return (
                f"Parked: none of {rollouts} probes succeeded at policy version "
                f"{verdict.policy_version}."
            )
        case Refused(gate=gate, found=found):
            return f"Refused by the gate {gate.replace('_', ' ')}: {clipped(found, TEXT)}"


def _training(history: TaskHistory) -> list[str]:
    steps = [str(trained.step) for trained in history.trained]
    sentence = f"Trained on in {len(steps)} steps" + (f": {_newest(steps)}." if steps else ".")
    earlier = history.dropped
    counts = f"{earlier.groups} older groups: {earlier.successes} of {earlier.rollouts}."
    before = [tag("p", counts)] if earlier.groups else []
    return [*before, _by_visit(history.visits, "Success by group"), tag("p", sentence)]


def _by_visit(visits: Sequence[GroupSummary], title: str) -> Markup:
    seen = judged(visits)
    if not seen:
        return tag("p", "No group of rollouts is finished yet.")
    curve = spark([v.successes / v.rollouts for v in seen[-DRAWN:]], title)
    shares = _newest([f"{v.successes}/{v.rollouts} (v{v.version_max})" for v in seen])
    return tag("p", curve, f"{title}: {shares}", class_="visits")


def _newest(texts: Sequence[str], most: int = 24) -> str:
    shown = ", ".join(texts[-most:])
    return f"…, {shown}" if len(texts) > most else shown
