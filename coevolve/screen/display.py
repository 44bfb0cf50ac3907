"""Output of a run on the terminal: a live screen or JSON lines, and a summary at the end."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import structlog
from rich.live import Live

from coevolve.delivery.alarms import sentence
from coevolve.history.curves import REWARD
from coevolve.history.degraded import log_change
from coevolve.history.passing import PAUSED, stall_after
from coevolve.history.progress import Progress
from coevolve.history.teaching import sentence as regression
from coevolve.history.weight_sync import scale_sentence
from coevolve.screen.drawing import draw
from coevolve.screen.start import StartScreen, redraws
from coevolve.screen.view import View
from protocols.config import RunConfig
from protocols.control import (
    CopyFailed,
    PartFailed,
    PartStatus,
    RolloutScaled,
    RunContinued,
    RunCopied,
    RunPaused,
    Stalled,
)
from protocols.evolution import SwapRefused
from protocols.journal import Message
from protocols.learning import Evaluation, PolicyRegressed, StepReport, WeightSyncAlarm

EVENT_S = 15.0
"""Seconds for which the live screen shows what has happened."""

log = structlog.get_logger()


StatusListener = Callable[[Sequence[PartStatus]], None]
"""Takes the newest status of each part."""


class Display(Protocol):
    """Shows a run while it starts and while it is running."""

    @property
    def look(self) -> StatusListener | None:
        """Shows what the parts wait for; None if the display does not show it."""
        ...

    def begin(self, phase: str) -> None:
        """Show what the run does from now on: a phase of its start or of its end."""
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

    look = None

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._steps = config.learner.steps

    def begin(self, phase: str) -> None:
        """Do nothing: a phase is no event."""

    def show(self, message: Message, progress: Progress) -> None:
        match message:
            case StepReport(step=step, metrics=metrics):
                figures = _stage(message, progress) | _score(progress) | _figures(metrics)
                log.info("step", step=step, of=self._steps, **figures)
                if reason := silence(self._config, message, progress):
                    log.warning("no_signal", reason=reason)
            case Evaluation(version=version, errors=errors):
                log.info("evaluation", version=version, errors=errors, **_score(progress))
            case RolloutScaled(cause=cause) if cause != "start":
                log.info("rollout_scaled", engines=message.engines, cause=cause)
            case RunPaused():
                self.say(PAUSED)
            case RunContinued():
                self.say("resumed")
            case RunCopied():
                log.info("copied", number=message.number, at_step=message.step)
            case _:
                _warn(message)

    def say(self, text: str) -> None:
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


def _stage(report: StepReport, progress: Progress) -> dict[str, object]:
    """Return the stage of a step of the warm start; of its last one also why that ended."""
    if report.stage == "loop":
        return {}
    stages, ended = progress.stages, report.warm_start_ended
    skills = {"skills": stages.skills, "skills_ready": stages.ready}
    return {
        "stage": report.stage,
        **skills,
        **({} if ended is None else {"ended_by": ended.reason}),
    }


def _score(progress: Progress) -> dict[str, object]:
    """Return the newest held-out score, if there is one."""
    scores = progress.held_out()
    newest = max(scores, default=None)
    if newest is None:
        return {}
    score = scores[newest]
    return {
        "scored": progress.measure,
        "held_out_percent": round(100 * score.mean, 1),
        "std_error_percent": round(100 * score.std_error, 1),
        "tasks": score.tasks,
    }


def _figures(metrics: Mapping[str, float]) -> dict[str, object]:
    """Return the main figures of a step."""
    groups = sum(metrics.get(f"groups/{kind}", 0) for kind in ("all_fail", "mixed", "all_pass"))
    imitated = metrics.get("groups/imitated", 0)
    taught = metrics.get("groups/informative", 0) + imitated
    shares = {"groups_that_taught_percent": taught, "groups_imitated_percent": imitated}
    named = {
        "reward": REWARD,
        "tokens_per_s": "perf/throughput",
        "step_s": "timing_s/step",
    }
    return {
        **{name: round(100 * n / groups, 1) for name, n in shares.items() if groups},
        **{name: round(metrics[key], 3) for name, key in named.items() if key in metrics},
    }


class LiveDisplay:
    """Redraws a screen in place; each look at the parts draws it anew."""

    def __init__(self, config: RunConfig, screen: StartScreen, elapsed_s: float) -> None:
        self._config = config
        self._started = screen.started - elapsed_s
        self._screen = screen
        self._console = screen.console
        self._progress: Progress | None = None
        self._stepped = 0.0
        self._stalled: Stalled | None = None
        self._events: list[tuple[float, str]] = []
        self._doing = ""
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    @property
    def look(self) -> StatusListener:
        return self._draw

    def begin(self, phase: str) -> None:
        """Show the phase on the start's screen, or in the head of the run's."""
        self._screen.begin(phase)
        self._doing = phase if self._live.is_started else ""

    def show(self, message: Message, progress: Progress) -> None:
        self._progress = progress
        self._stalled = stall_after(message, self._stalled)
        if isinstance(message, StepReport):
            self._stepped = time.monotonic()
        if event := _event(message) or silence(self._config, message, progress):
            self._note(event)

    def say(self, text: str) -> None:
        """Show a line for `EVENT_S`; during the start, print it."""
        if self._live.is_started:
            self._note(text)
        else:
            self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._screen.close()
        self._live.stop()

    def _note(self, event: str) -> None:
        self._events = [each for each in self._events if each[1] != event]
        self._events.append((time.monotonic(), event))

    def _draw(self, parts: Sequence[PartStatus]) -> None:
        """Draw the run; the first time, in the place of its start."""
        progress, now = self._progress, time.monotonic()
        if progress is None:
            return
        self._events = [each for each in self._events if now - each[0] < EVENT_S]
        view = View(
            config=self._config,
            progress=progress,
            elapsed_s=now - self._started,
            since_step_s=now - self._stepped if self._stepped else 0.0,
            parts=parts,
            stalled=self._stalled or progress.passing.stalled,
            events=[event for _, event in self._events],
            doing=self._doing,
        )
        console = self._console
        frame = draw(view, console.width, console.height, ascii_only=console.options.ascii_only)
        self._screen.close()
        self._live.start()
        self._live.update(frame, refresh=True)


def _event(message: Message) -> str:
    """Return a sentence about what has just happened; empty for what the screen shows anyway."""
    match message:
        case PartFailed():
            return f"{message.part} restarted: {message.reason}"
        case PolicyRegressed():
            return regression(message)
        case RolloutScaled(cause=cause) if cause != "start":
            return scale_sentence(message)
        case SwapRefused():
            return f"the synthesizer stays as it is: {message.reason}"
        case RunContinued():
            return "resumed"
        case _:
            return ""


def open_display(config: RunConfig, screen: StartScreen, elapsed_s: float = 0.0) -> Display:
    """Return a live screen in the place of ``screen`` on a terminal, JSON lines otherwise.

    The run began ``elapsed_s`` seconds before ``screen``.
    """
    if not redraws(screen.console):
        return LineDisplay(config)
    return LiveDisplay(config, screen, elapsed_s)


STEPS = 10
"""Steps of the loop without a signal after which it is said, once."""

SOLVED = 0.8
"""Mean reward of a step from which on more attempts at the same tasks find no weakness."""


def silence(config: RunConfig, message: Message, progress: Progress) -> str:
    """Return a sentence, with the remedies that the run file leaves; empty if all is well.

    It follows one step alone, number `STEPS` after the warm start, in a run that makes tasks.
    """
    if not (isinstance(message, StepReport) and message.stage == "loop" and config.synthesizes):
        return ""
    warm = progress.stages.last
    if message.step - warm != STEPS:
        return ""
    if progress.count("signal/") > progress.count("signal/cold_start"):
        return ""
    steps = f"{STEPS} steps{' after the warm start' * (warm > 0)}"
    is_solved = message.metrics.get(REWARD, 0.0) >= SOLVED
    remedies = ", or ".join(_remedies(config, progress.teaching.room, is_solved))
    return f"no signal in {steps}, so no task was made of a weakness: {remedies}"


def _remedies(config: RunConfig, room: str, is_solved: bool) -> Iterator[str]:
    if room:
        yield room
    if is_solved:
        yield (
            "as most attempts succeed, add tasks that are harder or worded otherwise, or lower "
            f"synthesizer.idle_steps below {config.synthesizer.idle_steps} for more explorations"
        )
        return
    if config.signals.rules == "posterior" and "unsolved" not in config.signals.kinds:
        yield "add unsolved to signals.kinds, for what always fails"
    if not config.learner.warm_start.steps:
        yield "imitate references first (learner.warm_start.steps)"
    yield (
        f"raise rollout.group_size above {config.rollout.group_size}: a rule needs some 29 attempts"
    )
