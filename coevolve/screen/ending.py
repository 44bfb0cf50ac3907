"""The end of a run on one screen; the report has everything else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from coevolve.base.user_code import resume_command
from coevolve.history.costs import Costs
from coevolve.history.instance_gap import SIDES, Side, memorized
from coevolve.history.progress import Progress
from coevolve.history.starts import CpuShares, Starts
from coevolve.history.teaching import lost_at_the_end
from coevolve.history.teaching import sentence as regression
from coevolve.screen.facts import NAME, NEWEST, Fact, fact_lines, made, noise, score_tables, summed
from coevolve.screen.lines import curve, duration, fitted, line, spread
from protocols.config import RunConfig
from protocols.learning import PolicyRegressed

TASKS: Mapping[Side, str] = {"held_out": "held-out tasks", "trained": "those trained on"}

ROWS = 24
"""Lines of the lowest terminal that the end fits."""

FRAME = 3
"""Of these, lines for the head, for an empty one, and for the shell's prompt."""

LEAST_SCORES = 2
"""Minimum number of lines of scores: their heading, and all tasks together."""

OTHERS = 5
"""Lines that scores by label leave to other facts."""

CURVE, RANGE = 40, 20
"""Maximum columns of the curve, and columns of the range beside it."""

REGRESSIONS = 2
"""Maximum number of regressions that are shown; the newest are."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is known of a run at its end."""

    config: RunConfig
    progress: Progress
    costs: Costs
    run: Path
    """The run's folder, as a user would type it."""

    report: Path | None
    """None if it could not be written."""

    stopped: bool
    """Whether the run stopped before its end, for any reason but the loss of its cluster."""

    lost: PolicyRegressed | None
    """What the guard found lost after the last step."""

    remarks: Sequence[str] = ()
    """Further sentences."""


def print_ending(console: Console, ending: Ending) -> None:
    """Print how a run went; its held-out scores come last."""
    width, ascii_only = console.width, console.options.ascii_only
    words = list(_words(ending))
    scores = score_tables(ending.progress, width, "held-out ", NEWEST)
    vital, others = _told(_vital(ending, width), width), _told(_facts(ending), width)
    if console.is_terminal:
        taken = sum(-(-cell_len(each) // width) for each in words)
        room = max(ROWS, console.height) - FRAME - taken - sum(map(len, vital))
        scores = scores[: max(LEAST_SCORES, room - OTHERS)]
        others = _fitting(others, room - len(scores))
    head = spread(_title(ending.config), _times(ending), width)
    facts = [each for fact in (*vital, *others) for each in fact]
    console.print(fitted([head, *facts], width, ascii_only=ascii_only))
    for each in words:
        console.print(each, soft_wrap=True)
    console.print()
    console.print(fitted(scores, width, ascii_only=ascii_only))


def _told(facts: Iterable[Fact], width: int) -> list[list[Text]]:
    return [fact_lines(fact, width) for fact in facts]


def _fitting(facts: Sequence[list[Text]], room: int) -> list[list[Text]]:
    """Return the first facts that take at most ``room`` lines together, with a note if some do not.

    The note is one of the lines.
    """
    if sum(map(len, facts)) <= room:
        return list(facts)
    found: list[list[Text]] = []
    left = room - 1
    for each in facts:
        left -= len(each)
        if left < 0:
            break
        found.append(each)
    return [*found, [line(("the report has more", "dim"))]]


def _title(config: RunConfig) -> Text:
    return line((config.name, "bold"), (f" \u00b7 arm {config.arm} \u00b7 seed {config.seed}", ""))


def _times(ending: Ending) -> Text:
    words = f"{ending.progress.step} of {ending.config.learner.steps} steps"
    starts = ending.progress.starts
    if (used := starts.total) is not None:
        count = "a start" if starts.number == 1 else f"{starts.number} starts"
        words += f" in {duration(used.training_s)}, after {count} of {duration(used.start_s)}"
    return line((words, ""))


def _vital(ending: Ending, width: int) -> Iterator[Fact]:
    """Return what every screen has room for: results, their curve, and what went wrong."""
    progress = ending.progress
    if missing := progress.unscored(str(ending.run)):
        yield "not scored", missing
    yield from map(_short, progress.result())
    yield from _curve(progress, width)
    yield from _staged(ending)
    if ending.lost is not None:
        yield "lost at the end", lost_at_the_end(ending.lost)
    if lesson := progress.lesson():
        yield "lesson", lesson


def _curve(progress: Progress, width: int) -> Iterator[Fact]:
    """Return the held-out score over the steps as a curve, from its lowest to its highest value."""
    scores = progress.held_out()
    if len(scores) < 2:
        return
    versions = sorted(scores)
    values = [100 * scores[version].mean for version in versions]
    columns = max(2, min(CURVE, width - NAME - RANGE))
    steps = np.linspace(versions[0], versions[-1], columns)
    drawn = curve(np.interp(steps, versions, values).tolist(), columns, noise(scores.values()))
    yield "its curve", f"{drawn}  {min(values):.1f} to {max(values):.1f} %"


def _facts(ending: Ending) -> Iterator[Fact]:
    """Return the rest, the most telling first."""
    progress, costs = ending.progress, ending.costs
    yield from _made(ending)
    if (share := costs.synthesized_share) is not None and costs.synthesized_tasks:
        yield "training groups", f"{costs.groups:,}, {100 * share:.0f} % on made tasks"
    yield from _scored(progress)
    for each in progress.teaching.returns[-REGRESSIONS:]:
        yield "regression", regression(each)
    if progress.restarts:
        yield "restarts of parts", summed(progress.restarts)
    yield from (("at the end", each) for each in progress.degraded.lines())
    yield from _learned(progress)
    if progress.discarded:
        yield "groups discarded", summed(progress.discarded)
    yield "rollouts", _rollouts(costs)
    yield from _calls(costs)
    if (shares := progress.starts.cpu) is not None:
        yield "CPU", _processors(shares) + _unmeasured(progress.starts)


def _staged(ending: Ending) -> Iterator[Fact]:
    """Return why the warm start ended, and the held-out scores before and after each stage."""
    stages = ending.progress.stages
    if words := stages.line(ending.config.learner.warm_start):
        yield "warm start", words
    if found := stages.milestones(ending.progress.held_out()):
        yield "held-out by stage", ", ".join(each.words for each in found)


def _scored(progress: Progress) -> Iterator[Fact]:
    """Return the best version, and how much better it does on tasks than under other names."""
    if (best := progress.choice()) and best.is_told:
        yield "best version", best.brief
    if progress.gaps:
        gaps = (
            f"{100 * gap.mean:+.1f} \u00b1 {100 * gap.std_error:.1f} points on {TASKS[side]}"
            for side, gap in progress.gaps.items()
        )
        yield "instance gap", ", ".join(gaps)
    if len(progress.gaps) == len(SIDES):
        found = memorized(progress.gaps["trained"], progress.gaps["held_out"])
        yield "memorized", f"{found}, the trained minus the held-out gap"


def _made(ending: Ending) -> Sequence[Fact]:
    """Return what the loop made; that it found nothing to make tasks of, if it should have."""
    facts = made(ending.progress)
    if facts or not ending.config.synthesizes:
        return facts
    return [("signals found", "none, so no task was made")]


def _short(fact: Fact) -> Fact:
    """Return the same with a name that fits into its columns."""
    what, value = fact
    name, _, more = what.strip().partition(", ")
    if len(name) > NAME:
        return "", f"{what.strip()}: {value}"
    return name, f"{value}, {more}" if more else value


def _learned(progress: Progress) -> Iterator[Fact]:
    teaching = progress.teaching
    if not teaching.steps:
        return
    yield from teaching.sources()
    movement = f"{100 * teaching.movement / teaching.steps:.0f} % by policy gradient"
    nothing = f"; {teaching.nothing / teaching.steps:.1f} groups a step taught nothing"
    yield "weights moved", movement + (nothing if teaching.nothing else "")


def _rollouts(costs: Costs) -> str:
    errors = costs.training.errors + costs.probing.errors
    tokens = costs.training.tokens + costs.probing.tokens
    return (
        f"{costs.training.rollouts:,} to train, {costs.probing.rollouts:,} to probe, "
        f"{errors:,} failed; {tokens:,} tokens"
    )


def _calls(costs: Costs) -> Iterator[Fact]:
    """Return the use of the models of synthesizer and teacher, if they were called."""
    for who, usage in (("synthesizer", costs.synthesizing), ("teacher", costs.teaching)):
        if usage.calls:
            words = f"{usage.calls:,} calls, {usage.tokens:,} tokens"
            yield who, f"{words}, {usage.cost_usd:,.2f} USD" if usage.cost_usd else words


def _unmeasured(starts: Starts) -> str:
    """Return that the times lack those of starts that were killed before a record of them."""
    lacking = starts.number - starts.measured
    return f"; without {lacking} of {starts.number} starts" if lacking else ""


def _processors(shares: CpuShares) -> str:
    rest_s = sum(shares.rest_s.values())
    return (
        f"models {shares.model_s:.0f} s, simulators {shares.simulator_s:.0f} s, everything else "
        f"{rest_s:.0f} s ({100 * shares.rest_share:.1f} %)"
    )


def _words(ending: Ending) -> Iterator[str]:
    """Yield what the user may want to do next; paths are not cut."""
    yield from ending.remarks
    if ending.report is None:
        yield f"no report was written; write it with: coevolve report {ending.run}"
    else:
        yield f"report: {ending.report}"
    if ending.stopped:
        yield f"stopped; continue with: {resume_command(ending.run, ending.config)}"
