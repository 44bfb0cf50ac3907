"""Output of a run on the terminal: a live table or JSON lines, and a summary at the end."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coevolve.delivery.alarms import sentence
from coevolve.runs import attribution
from coevolve.runs.accounting import CpuShares
from coevolve.runs.costs import Costs
from coevolve.runs.degraded import log_change
from coevolve.runs.progress import Progress
from coevolve.runs.scaling import sentence as scale_sentence
from coevolve.runs.screen.start import StartScreen, redraws
from coevolve.runs.teaching import lost_at_the_end
from coevolve.runs.teaching import sentence as regression
from protocols.config import RunConfig
from protocols.control import CopyFailed, PartFailed, RolloutScaled, RunCopied, Stalled
from protocols.journal import Message
from protocols.learning import Evaluation, PolicyRegressed, StepReport, WeightSyncAlarm

log = structlog.get_logger()


class Display(Protocol):
    """Shows a run while it starts and while it is running."""

    def begin(self, phase: str) -> None:
        """Show a phase of the start, which ends with the next one or with the first record."""
        ...

    def show(self, message: Message, progress: Progress) -> None:
        """Show a record that ``progress`` has already folded."""
        ...

    def say(self, text: str) -> None:
        """Show one line of text."""
        ...

    def close(self) -> None:
        """Stop showing."""
        ...


class LineDisplay:
    """Prints one short JSON line per event; `metrics.jsonl` has all numbers."""

    def __init__(self, config: RunConfig) -> None:
        self._steps = config.learner.steps

    def begin(self, phase: str) -> None:
        """Do nothing: a start has no events."""

    def show(self, message: Message, progress: Progress) -> None:
        """Print the event."""
        match message:
            case StepReport(step=step, metrics=metrics):
                figures = _score(progress) | _figures(metrics)
                log.info("step", step=step, of=self._steps, **figures)
            case Evaluation(version=version, errors=errors):
                log.info("evaluation", version=version, errors=errors, **_score(progress))
            case RolloutScaled(cause=cause) if cause != "start":
                log.info("rollout_scaled", engines=message.engines, cause=cause)
            case RunCopied():
                log.info("copied", number=message.number, at_step=message.step)
            case _:
                _warn(message)

    def say(self, text: str) -> None:
        """Print the line as an event."""
        log.info("launch", text=text)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _warn(message: Message) -> None:
    """Print a fault, or its end, as an event, and nothing for other messages."""
    match message:
        case PartFailed():
            log.warning("part_restarted", part=message.part, reason=message.reason)
        case WeightSyncAlarm():
            log.error("weight_sync_alarm", engine=message.engine, reason=sentence(message))
        case PolicyRegressed():
            log.warning("policy_regressed", reason=regression(message))
        case Stalled():
            log.warning("stalled", quiet_s=message.quiet_s, waiting=message.waiting)
        case CopyFailed():
            log.warning("copy_failed", reason=message.reason)
        case _:
            log_change(message)


def _score(progress: Progress) -> dict[str, object]:
    """Return the newest held-out score, if there is one."""
    scores = progress.held_out()
    newest = max(scores, default=None)
    if newest is None:
        return {}
    return {"scored": progress.measure, "held_out_percent": round(100 * scores[newest], 1)}


def _figures(metrics: Mapping[str, float]) -> dict[str, object]:
    """Return the main figures of a step."""
    groups = sum(metrics.get(f"groups/{kind}", 0) for kind in ("all_fail", "mixed", "all_pass"))
    taught = metrics.get("groups/informative", 0)
    named = {
        "reward": "critic/rewards/mean",
        "tokens_per_s": "perf/throughput",
        "step_s": "timing_s/step",
    }
    return {
        **({"groups_that_taught_percent": round(100 * taught / groups, 1)} if groups else {}),
        **{name: round(metrics[key], 3) for name, key in named.items() if key in metrics},
    }


class LiveDisplay:
    """Redraws a table in place."""

    def __init__(self, config: RunConfig, screen: StartScreen) -> None:
        self._config = config
        self._screen = screen
        self._started = time.monotonic()
        self._messages: list[str] = []
        self._progress: Progress | None = None
        self._live = Live(self._draw(), console=screen.console, auto_refresh=False, transient=True)

    def begin(self, phase: str) -> None:
        """Show the phase on the start's screen."""
        self._screen.begin(phase)

    def show(self, message: Message, progress: Progress) -> None:
        """Redraw the table; the first record ends the start's screen."""
        self._progress = progress
        self._screen.close()
        self._live.start()
        match message:
            case PartFailed():
                self._messages.append(f"{message.part} restarted: {message.reason}")
            case WeightSyncAlarm():
                self._messages.append(sentence(message))
            case PolicyRegressed():
                self._messages.append(regression(message))
            case RolloutScaled(cause=cause) if cause != "start":
                self._messages.append(scale_sentence(message))
            case Stalled():
                self._messages.append(f"no progress for {message.quiet_s:.0f} s:")
                self._messages.extend(f"  {line}" for line in message.waiting)
            case CopyFailed():
                self._messages.append(copy_failure(message))
            case _:
                pass
        self._live.update(self._draw(), refresh=True)

    def say(self, text: str) -> None:
        """Add a line below the table; during the start, print it."""
        if not self._live.is_started:
            self._screen.console.print(text, soft_wrap=True)
            return
        self._messages.append(text)
        self._live.update(self._draw(), refresh=True)

    def close(self) -> None:
        """Remove the table."""
        self._screen.close()
        self._live.stop()

    def _draw(self) -> Group:
        steps = self._config.learner.steps
        progress = self._progress
        done = progress.step if progress else 0
        head = f"{self._config.name}  step {done}/{steps}  {time.monotonic() - self._started:.0f} s"
        parts: list[Text | Table] = [Text(head, style="bold")]
        if progress and progress.metrics:
            metrics = progress.metrics
            parts.append(
                Text(
                    f"reward {metrics.get('critic/rewards/mean', 0.0):.2f}"
                    f"  staleness {metrics.get('training/off_policy/version_lag_mean', 0.0):.1f}"
                    f"  tokens/s {metrics.get('perf/throughput', 0.0):.0f}"
                    f"  discarded {sum(progress.discarded.values())}"
                )
            )
        if progress and progress.evolution:
            parts.append(Text(_evolution_line(progress)))
        if progress and progress.evaluations:
            parts.extend(score_tables(progress))
        degraded = progress.degraded.lines() if progress else ()
        parts.extend(Text(line) for line in (*degraded, *self._messages[-6:]))
        return Group(*parts)


def open_display(config: RunConfig, screen: StartScreen) -> Display:
    """Return a live table after ``screen`` on a terminal, JSON lines otherwise."""
    return LiveDisplay(config, screen) if redraws(screen.console) else LineDisplay(config)


def copy_failure(failure: CopyFailed) -> str:
    """Return a sentence about a copy that was not made."""
    return f"not copied: {failure.reason}; the run tries again after its next checkpoint"


def _evolution_line(progress: Progress) -> str:
    return (
        f"signals {progress.count('signal/')}  resolved {progress.count('synth/')}"
        f"  admitted {progress.count('validator/admit/')}"
        f"  parked {progress.count('validator/parked')}"
        f"  refused {progress.count('validator/reject/')}"
    )


def score_tables(progress: Progress) -> Sequence[Table]:
    """Return tables of scores, one row per group of tasks and one column per scored version.

    The tables of the environment's measures come before that of success.
    """
    return (
        *(_score_table(f"{name}, %", means) for name, means in progress.measured.items()),
        _score_table("success, %", progress.evaluations),
    )


def _score_table(title: str, scores: Mapping[int, Mapping[str, float]]) -> Table:
    versions = sorted(scores)
    table = Table(title=title, title_justify="left")
    table.add_column("tasks")
    for version in versions:
        table.add_column(f"step {version}", justify="right")
    for label in {label: None for version in versions for label in scores[version]}:
        shares = (scores[version].get(label) for version in versions)
        table.add_row(label, *("" if x is None else f"{100 * x:.1f}" for x in shares))
    return table


def _processors(shares: CpuShares) -> list[tuple[str, str]]:
    """Return the CPU time as (what, value)."""
    rest = sorted(shares.rest_s.items(), key=lambda each: -each[1])
    return [
        ("CPU in models", f"{shares.model_s:.1f} s"),
        ("CPU in simulators", f"{shares.simulator_s:.1f} s"),
        ("CPU in everything else", f"{sum(shares.rest_s.values()):.1f} s"),
        ("  share of all CPU", f"{100 * shares.rest_share:.1f} %"),
        *((f"  {name}", f"{used_s:.1f} s") for name, used_s in rest),
    ]


def _seconds(duration_s: float | None) -> str | None:
    return None if duration_s is None else f"{duration_s:.1f} s"


def print_summary(
    console: Console,
    config: RunConfig,
    progress: Progress,
    costs: Costs,
    *,
    run_dir: Path,
    lost: PolicyRegressed | None,
    first_rollout_s: float | None,
    training_s: float | None,
    shares: CpuShares | None,
) -> None:
    """Print the summary of a run. Times are wall-clock seconds; unknown values are left out.

    ``lost`` is what the guard found lost after the last step.
    """
    console.print(*score_tables(progress), sep="\n")
    attributed = attribution.summary(config, progress, attribution.known(run_dir))
    table = Table(title=f"{config.name}: arm {config.arm}, seed {config.seed}")
    table.add_column("what")
    table.add_column("value", justify="right")
    rows = (
        ("steps", f"{progress.step} of {config.learner.steps}"),
        ("start-up, command to first rollout", _seconds(first_rollout_s)),
        ("first rollout request to last step", _seconds(training_s)),
        *(_processors(shares) if shares else ()),
        *attributed,
        *progress.teaching.lines(),
        ("lost at the end", lost and lost_at_the_end(lost)),
        *progress.deliveries.lines(),
        *(
            (f"groups discarded: {reason}", str(n))
            for reason, n in sorted(progress.discarded.items())
        ),
        *((name, str(count)) for name, count in sorted(progress.evolution.items())),
        *((cost.name, cost.text) for cost in costs.lines()),
        ("restarts of parts", str(sum(progress.restarts.values()))),
    )
    for what, value in rows:
        if value:
            table.add_row(what, str(value))
    console.print(table)
    if lesson := progress.lesson():
        console.print(lesson, soft_wrap=True)
    if attribution.UNKNOWN in attributed:
        console.print(
            f"to measure the shares: {attribution.COMMAND.format(run=run_dir)}", soft_wrap=True
        )
