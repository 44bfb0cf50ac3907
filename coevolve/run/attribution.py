"""What each source of a run's steps was found to be worth: `attribution.json` in its folder.

`coevolve.ablate` finds it out, `coevolve.replay --ablate` prints and keeps it, and the run's
summary and report show it.
"""

from pathlib import Path
from typing import Literal

import msgspec

from coevolve.run.progress import Progress
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.objectives import NoObjective

FILE = "attribution.json"

UNKNOWN = ("  of these by the policy gradient", "not measured")

Method = Literal["paired runs", "recorded batches"]
"""``paired runs``: a run of its own without the source, with the same seed. ``recorded batches``:
those of the run itself, trained on again without the source."""

COMMAND = "python -m coevolve.replay {run} --ablate objective --anew"
"""Makes the run again without its objective, and says what that is worth."""


class Ablated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of training without one source."""

    success: float
    """Held-out success of the last version, 0..1."""

    off_policy: float | None = None
    """On recorded batches, nats per token by which the rollouts' own policy and the one in training
    differ, mean over the steps that have a policy gradient. Much more than in the run itself means
    that the batches are not what this policy would have met, and that it may go wrong for that
    reason alone. None where the rollouts were the policy's own."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Held-out success, 0..1, with every source and without one."""

    method: Method
    steps: int
    """Of the run when it was attributed; it may have taken further ones since."""

    start: float
    final: float
    off_policy: float | None = None
    """As in `Ablated`, with every source."""

    without: dict[str, Ablated]
    """By the source that was left out."""


def write(run_dir: Path, found: Attribution) -> None:
    """Keep what was found in the run's folder. Raises RunError."""
    path = run_dir / FILE
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error}") from error


def read(run_dir: Path) -> Attribution | None:
    """Return what was found last; None where nobody asked. Raises RunError where it is broken."""
    path = run_dir / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Attribution)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise RunError(
            f"{path}: cannot be read: {error}; remove it, and `{COMMAND.format(run=run_dir)}` "
            "makes it again"
        ) from error


def lines(found: Attribution) -> list[str]:
    """Return what was found, a line a source."""
    gain = 100 * (found.final - found.start)
    how = (
        "by runs of their own with the same seed"
        if found.method == "paired runs"
        else f"on the same batches, {found.off_policy:.3f} nats off policy"
    )
    return [
        f"held-out success {100 * found.start:.1f} -> {100 * found.final:.1f} % in {found.steps} "
        f"steps, {gain:+.1f} points; {how}:",
        *(
            f"  without {source}: {100 * each.success:.1f} % "
            f"({100 * (each.success - found.final):+.1f} points)"
            + ("" if each.off_policy is None else f", {each.off_policy:.3f} nats off policy")
            for source, each in found.without.items()
        ),
    ]


def summary(
    config: RunConfig, progress: Progress, found: Attribution | None
) -> list[tuple[str, str]]:
    """Return what a summary says of the run's result and of its shares, (what, value).

    Nothing before a second version was scored, and no shares where a single source teaches.
    """
    scores = progress.held_out()
    if len(scores) < 2:
        return []
    first, last = min(scores), max(scores)
    gain = 100 * (scores[last] - scores[first])
    told = [
        (
            f"held-out {progress.measure}, version {first} to {last}",
            f"{100 * scores[first]:.1f} -> {100 * scores[last]:.1f} %, {gain:+.1f} points",
        )
    ]
    learner = config.learner
    if isinstance(learner.objective, NoObjective) or not learner.imitation.weight:
        return told
    if found is None or found.steps != last or not found.without:
        return [*told, UNKNOWN]
    return [
        *told,
        *(
            (
                f"  lost without {source}, by {found.method}",
                f"{100 * (found.final - each.success):+.1f} points",
            )
            for source, each in found.without.items()
        ),
    ]
