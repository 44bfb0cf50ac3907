"""The live screen of a run: a pure function of a `View` and the size of the terminal.

From the top: the run and its bar; what is wrong or passing, while it lasts; the newest step with
curves and trends; what the loop made; which part waits for what. A low terminal leaves out the
lower ones. Words and signs say all that colours say.
"""

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.text import Text

from coevolve.delivery.alarms import sentence as alarm_sentence
from coevolve.history.curves import REWARD, Trend, seconds_left, trend
from coevolve.history.degraded import copy_failure
from coevolve.history.passing import PAUSED
from coevolve.history.progress import Progress
from coevolve.screen.facts import NAME, Fact, fact_line, made, noise, score_lines, summed
from coevolve.screen.lines import curve, duration, fitted, line, spread, wrapped
from coevolve.screen.parts import part_lines
from coevolve.screen.view import View
from protocols.learner_config import WarmStartConfig

GOOD, BAD, FAINT = "green", "red", "dim"
ARROWS: Mapping[Trend, str] = {"up": "\u2191", "down": "\u2193", "level": "\u2192"}

VALUE, CURVE, TREND = 14, 30, 31
"""Columns of a metric's value, at most of its curve, and of its trend."""

NOTICE_LINES = 3
"""Maximum lines of one notice."""

METRICS: tuple[tuple[str, str, str, Trend | None], ...] = (
    (REWARD, "reward", "{:.3f}", "up"),
    ("actor/pg_loss", "policy loss", "{:.3f}", None),
    ("actor/preference_loss", "preference loss", "{:.3f}", "down"),
    ("actor/imitation_loss", "imitation loss", "{:.3f}", "down"),
    ("actor/kl_from_start", "KL from start", "{:.3f} nats", None),
    ("actor/entropy", "entropy", "{:.3f} nats", None),
    ("actor/grad_norm", "gradient norm", "{:.3f}", None),
    ("perf/throughput", "tokens per second", "{:,.0f}", None),
)
"""Metric, its name on the screen, its format, and the direction that is better, if one is."""


def draw(view: View, width: int, height: int, *, ascii_only: bool = False) -> Group:
    """Return the screen, at most ``height`` - 1 lines of ``width`` columns."""
    room = height - 1
    lines = [_head(view, width), _bar(view, width)]
    alarms = _notices(view, width)
    lines += alarms[: max(room - len(lines) - 1, 0)]
    progress = view.progress
    labels = score_lines(f"held-out {progress.measure}, %", progress.scores, width)
    sections = (
        _metrics(view, width),
        _loop(progress, view.config.learner.warm_start),
        labels,
        part_lines(view.parts),
    )
    # Labels need a high terminal: the held-out line has their mean.
    needed = len(lines) + sum(map(len, sections)) + len(sections)
    if needed > room:
        sections = (sections[0], sections[1], sections[3])
    lines += _stacked(sections, room - len(lines))
    return fitted(lines[:room], width, ascii_only=ascii_only)


def _stacked(sections: Sequence[Sequence[Text]], room: int) -> list[Text]:
    """Return the sections, the last of them cut, with blank lines between them if these fit."""
    shown = [section for section in sections if section]
    blank = [line()] if sum(map(len, shown)) + len(shown) <= room else []
    return [each for section in shown for each in (*blank, *section)][: max(room, 0)]


def _head(view: View, width: int) -> Text:
    config = view.config
    left = line((config.name, "bold"), (f" \u00b7 arm {config.arm} \u00b7 seed {config.seed}", ""))
    return spread(left, line((_doing(view), "bold"), (f" {duration(view.elapsed_s)}", "")), width)


def _doing(view: View) -> str:
    """Return what the run does, in a word or a few."""
    if view.doing:
        return view.doing
    if view.progress.passing.stopping:
        return "stops"
    if view.progress.passing.paused:
        return "paused"
    if view.progress.stages.is_warm:
        return "warm start"
    if view.progress.step or view.progress.evaluations:
        return "runs"
    return "starts"


def _bar(view: View, width: int) -> Text:
    """Return the progress bar with the steps and the time that is left."""
    steps, done = view.config.learner.steps, view.progress.step
    words = f" step {done} of {steps}"
    left_s = seconds_left(view.progress.curves, steps - done)
    if done < steps and left_s is not None:
        a_step_s = left_s / (steps - done)
        words += f", about {duration(left_s - min(view.since_step_s, a_step_s))} left"
    elif done == steps:
        words += ", scores the last version"
    columns = max(width - len(words), 0)
    filled = columns * done // steps if steps else columns
    return line(("\u2501" * filled, GOOD), ("\u2500" * (columns - filled), FAINT), (words, ""))


def _notices(view: View, width: int) -> list[Text]:
    """Return what is wrong or passing, the gravest first."""
    progress = view.progress
    alarm, stalled = progress.deliveries.alarm, view.stalled
    grave = [f"ALARM: {alarm_sentence(alarm)}"] if alarm else []
    if stalled is not None:
        waiting = "; ".join(stalled.waiting)
        grave.append(f"no progress for {stalled.quiet_s:.0f} s: {waiting}")
    mild = list(progress.degraded.lines())
    if progress.copy_failed is not None:
        mild.append(copy_failure(progress.copy_failed))
    if progress.passing.paused:
        mild.append(PAUSED)
    if (swap := progress.passing.swapped) is not None:
        mild.append(f"swap: {swap.synthesizer} synthesizes from now on; its first signal is open")
    found = [(each, f"bold {BAD}") for each in grave]
    found += [(each, "yellow") for each in (*mild, *view.events)]
    return [
        each for text, style in found for each in wrapped("! ", text, style, width, NOTICE_LINES)
    ]


def _metrics(view: View, width: int) -> list[Text]:
    progress = view.progress
    lines = [_held_out(view, width)]
    for name, label, form, better in METRICS:
        values = progress.curves.get(name, ())
        if not any(values) and name != REWARD:
            continue
        value = form.format(values[-1]) if values else "no step yet"
        lines.append(_row(label, value, curve(values, _curve_columns(width)), width))
        if (toward := trend(values)) is not None:
            word, style = _judged(toward, better)
            lines[-1].append(f"{ARROWS[toward]} {word}", style)
    return [lines[1], lines[0], *lines[2:]]


def _judged(toward: Trend, better: Trend | None) -> tuple[str, str]:
    """Return a word about a trend, and its colour."""
    if toward == "level" or better is None:
        return toward, ""
    return ("better", GOOD) if toward == better else ("worse", BAD)


def _row(name: str, value: str, drawn: str, width: int) -> Text:
    columns = _curve_columns(width)
    return line(
        (f"{name:<{NAME}} ", ""), (f"{value:>{VALUE}}  ", "bold"), (f"{drawn:<{columns}}  ", "cyan")
    )


def _curve_columns(width: int) -> int:
    return max(min(CURVE, width - NAME - VALUE - TREND), 0)


def _held_out(view: View, width: int) -> Text:
    """Return the line about the held-out score: newest, curve, and what it was at the start."""
    progress = view.progress
    scores = progress.held_out()
    versions = sorted(scores)
    values = [100 * scores[version].mean for version in versions]
    columns = _curve_columns(width)
    name = f"held-out {progress.measure}"
    if not values:
        return _row(name, "not scored", "", width)
    drawn = curve(values, columns, noise(scores.values()))
    found = _row(name, scores[versions[-1]].percent, drawn, width)
    if len(values) > 1:
        gain = values[-1] - values[0]
        found.append(f"{gain:+.1f} points ", GOOD if gain > 0 else BAD if gain < 0 else "")
    return found.append(f"at step {versions[-1]}")


def _loop(progress: Progress, config: WarmStartConfig) -> list[Text]:
    """Return where the time of a step goes, how far a warm start is, and what the loop made."""
    warm = ("warm start", words) if (words := progress.stages.line(config)) else None
    facts = (_times(progress.metrics), _groups(progress), warm, *made(progress))
    return [fact_line(each) for each in facts if each is not None]


def _times(metrics: Mapping[str, float]) -> Fact | None:
    """Return the shares of the newest step's time."""
    whole = metrics.get("timing_s/step", 0.0)
    if not whole:
        return None
    saved = metrics.get("timing_s/save_weights", 0.0) + metrics.get("timing_s/save_checkpoint", 0.0)
    shares = (
        ("waits for rollouts", metrics.get("timing_s/wait", 0.0)),
        ("trains", metrics.get("timing_s/update_actor", 0.0)),
        ("saves", saved),
    )
    words = ", ".join(f"{100 * spent / whole:.0f} % {what}" for what, spent in shares)
    return "a step takes", f"{whole:.1f} s: {words}"


def _groups(progress: Progress) -> Fact | None:
    metrics = progress.metrics
    kinds = (("mixed", "mixed"), ("all_pass", "all pass"), ("all_fail", "all fail"))
    if "groups/mixed" not in metrics:
        return None
    counts = {name: round(metrics.get(f"groups/{key}", 0)) for key, name in kinds}
    thrown = f"; discarded so far {summed(progress.discarded)}" if progress.discarded else ""
    return "its groups", summed({name: n for name, n in counts.items() if n}) + thrown
