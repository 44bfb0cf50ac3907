"""What each source of a run's steps was found to be worth: `attribution.json` in its folder.

`coevolve.ablate` finds it out, `coevolve.replay --ablate` prints and keeps it, and the run's
summary and report show it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.runs.progress import Progress
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.objectives import NoObjective

FILE = "attribution.json"

COMMAND = "python -m coevolve.replay {run} --ablate objective --anew"
"""Makes the run again without its objective, and says what that is worth."""

UNKNOWN = ("  of these by the objective", "not measured")

Method = Literal["paired runs", "recorded batches"]
"""``paired runs``: a run of its own without the source, with the same seed. ``recorded batches``:
those of the run itself, trained on again without the source."""


class Ablated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of training without one source."""

    source: str
    method: Method
    success: float
    """Held-out success of the last version, 0..1."""

    off_policy: float | None = None
    """On recorded batches, nats per token by which the rollouts' own policy and the one in training
    differ, mean over the steps that have a policy gradient. Much more than in the run itself means
    that the batches are not what this policy would have met, and that it may go wrong for that
    reason alone. None where it was not measured."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Held-out success, 0..1, with every source and without one."""

    steps: int
    """Of the run when it was attributed; it may have taken further ones since."""

    start: float
    final: float
    off_policy: float | None = None
    """As in `Ablated`, with every source."""

    without: tuple[Ablated, ...]
    """One for each source and method."""

    def beside(self, earlier: "Attribution | None") -> "Attribution":
        """Return this with what was found ``earlier`` about the same steps and not now."""
        if earlier is None or (earlier.steps, earlier.final) != (self.steps, self.final):
            return self
        mine = {(each.source, each.method) for each in self.without}
        others = [each for each in earlier.without if (each.source, each.method) not in mine]
        return msgspec.structs.replace(
            self,
            without=(*others, *self.without),
            off_policy=earlier.off_policy if self.off_policy is None else self.off_policy,
        )


def write(run_dir: Path, found: Attribution) -> None:
    """Keep what was found in the run's folder, beside what was before. Raises RunError."""
    path = run_dir / FILE
    whole = found.beside(read(run_dir))
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error}") from error


def read(run_dir: Path) -> Attribution | None:
    """Return what was found so far; None where nobody asked. Raises RunError where it is broken."""
    path = run_dir / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Attribution)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read: {error}; remove it, and `{COMMAND.format(run=run_dir)}` "
            "makes it again"
        ) from error


def known(run_dir: Path) -> Attribution | RunError | None:
    """Return as `read` does, with an error in place of raising it: the rest can still be told."""
    try:
        return read(run_dir)
    except RunError as error:
        return error


def lines(found: Attribution) -> list[str]:
    """Return what was found, a line a source."""
    gain = 100 * (found.final - found.start)
    return [
        f"held-out success {100 * found.start:.1f} -> {100 * found.final:.1f} % in {found.steps} "
        f"steps, {gain:+.1f} points",
        *(
            f"  without {each.source}, by {each.method}: {100 * each.success:.1f} % "
            f"({100 * (each.success - found.final):+.1f} points){_distance(each, found)}"
            for each in found.without
        ),
    ]


def summary(
    config: RunConfig, progress: Progress, found: Attribution | RunError | None
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
    if isinstance(found, RunError):
        return [*told, ("  what each source is worth", str(found))]
    if found is None or found.steps != last:
        return [*told, UNKNOWN]
    best = _by_best_method(found.without)
    shares = [
        (
            f"  lost without {each.source}, by {each.method}",
            f"{100 * (found.final - each.success):+.1f} points",
        )
        for each in best.values()
    ]
    return [*told, *shares, *([] if "objective" in best else [UNKNOWN])]


def _by_best_method(found: Iterable[Ablated]) -> dict[str, Ablated]:
    """Return a finding for each source: of paired runs where there is one."""
    ordered = sorted(found, key=lambda each: each.method == "paired runs")
    return {each.source: each for each in ordered}


def _distance(ablated: Ablated, found: Attribution) -> str:
    if ablated.method == "paired runs":
        return ""
    own = "not measured" if found.off_policy is None else f"{found.off_policy:.3f}"
    without = "not measured" if ablated.off_policy is None else f"{ablated.off_policy:.3f}"
    return f"; nats off policy: {without}, with every source {own}"
