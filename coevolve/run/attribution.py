"""What each source of a run's steps was found to be worth: `attribution.json` in its folder.

`coevolve.ablate` finds it out, and `coevolve.replay --ablate` prints and keeps it.
"""

from pathlib import Path

import msgspec

FILE = "attribution.json"


class Ablated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the recorded batches without one source."""

    success: float
    """Held-out success of the last version, 0..1."""

    off_policy: float
    """Nats per token by which the rollouts' own policy and the one in training differ, mean over
    the steps that have a policy gradient. Much more than in the run itself means that the batches
    are not what this policy would have met, and that it may go wrong for that reason alone."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Held-out success, 0..1, of the recorded batches with every source and without one."""

    steps: int
    """Recorded steps that were taken again; the run may have taken further ones since."""

    start: float
    final: float
    off_policy: float
    """As in `Ablated`, with every source."""

    without: dict[str, Ablated]
    """By the source that was left out."""


def write(run_dir: Path, found: Attribution) -> None:
    """Keep what was found in the run's folder."""
    (run_dir / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(found)))


def lines(found: Attribution) -> list[str]:
    """Return what was found, a line a source."""
    gain = 100 * (found.final - found.start)
    return [
        f"held-out success {100 * found.start:.1f} -> {100 * found.final:.1f} % in {found.steps} "
        f"steps, {gain:+.1f} points; on the same batches, {found.off_policy:.3f} nats off policy:",
        *(
            f"  without {source}: {100 * each.success:.1f} % "
            f"({100 * (each.success - found.final):+.1f} points), {each.off_policy:.3f} nats off"
            for source, each in found.without.items()
        ),
    ]
