"""What a person sees of a drawn screen, and runs to draw."""

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType

from coevolve.base.terminal import Terminal
from coevolve.history.progress import Progress
from protocols.control import PartStatus
from protocols.journal import Message
from protocols.learning import StepReport, WarmStartEnded
from tests.evolving import story
from tests.exporting import scored


def plain(frame: RenderableType, size: tuple[int, int]) -> list[str]:
    """Return the lines of a frame on a terminal of (columns, rows), without colours."""
    width, height = size
    terminal = Terminal(width=width, height=height, color_system=None, highlight=False)
    with terminal.capture() as shown:
        terminal.print(frame)
    return shown.get().splitlines()


def progress_of(messages: Sequence[Message]) -> Progress:
    """Return the progress of these records."""
    progress = Progress({})
    for message in messages:
        progress.fold(message)
    return progress


def report(step: int, **metrics: float) -> StepReport:
    """Return the report of a step of 2 s with a few metrics, and others by name."""
    usual = {
        "critic/rewards/mean": 0.25 + 0.01 * step,
        "actor/pg_loss": -0.125,
        "actor/imitation_loss": 1.0 / step,
        "actor/kl_from_start": 0.5,
        "actor/entropy": 0.75,
        "actor/grad_norm": 1.5,
        "perf/throughput": 3210.0,
        "groups/mixed": 6.0,
        "groups/all_fail": 2.0,
        "timing_s/step": 2.0,
        "timing_s/wait": 1.5,
        "timing_s/update_actor": 0.5,
    }
    given = {name.replace("__", "/"): value for name, value in metrics.items()}
    return StepReport(
        step=step, groups=(), weights_digest="", groups_consumed=8, metrics=usual | given
    )


def staged(warm: int, steps: int, *, ends: bool = True) -> list[Message]:
    """Return the records of a run of some steps, the first of which are its warm start."""
    counts = {"stage__skills_ready": 4.0, "stage__skills": 6.0}
    found: list[Message] = [scored(0, 0)]
    for step in range(1, steps + 1):
        ended = WarmStartEnded(reason="skills", ready=4, skills=6) if step == warm else None
        is_warm = step <= warm
        found.append(
            msgspec.structs.replace(
                report(step, **(counts if is_warm else {})),
                stage="warm_start" if is_warm else "loop",
                warm_start_ended=ended if ends else None,
            )
        )
        if step in (warm, steps):
            found.append(scored(step, 2 if is_warm else 3))
    return found


def whole_story(steps: int = 40) -> list[Message]:
    """Return the records of a run that scores, trains, and makes tasks."""
    made = [each for each in story() if not isinstance(each, StepReport)]
    trained = [report(step) for step in range(1, steps + 1)]
    return [scored(0, 1), *made, *trained, scored(steps, 3)]


def status(part: str, waits_for: str, **fields: object) -> PartStatus:
    """Return the status of a part that has waited for 3 s; ``fields`` change others."""
    usual = PartStatus(
        part=part,
        pid=1,
        waits_for=waits_for,
        since_s=3.0,
        mailbox=0,
        done=0,
        policy_version=-1,
        last_error="",
    )
    return msgspec.structs.replace(usual, **fields)
