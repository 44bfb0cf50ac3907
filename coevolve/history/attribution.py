"""The measured effect of each source of gradient on a run's result: `attribution.json`.

`coevolve.commands.ablate` measures it, `coevolve replay --ablate` prints it and stores it in the
run's folder, and the run's summary and report show it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.durable_files import replace_file
from coevolve.foreign import boundary, bytes_of
from coevolve.history.progress import Progress
from coevolve.history.score import Score
from protocols.config import RunConfig
from protocols.errors import RunError

FILE = "attribution.json"

MOST_BYTES = 64 << 20
"""Maximum bytes of it."""


COMMAND = "coevolve replay {run} --ablate objective --anew"
"""Repeats the run without its objective and reports the difference in success."""

UNKNOWN = ("  of these by the objective", "not measured")

Method = Literal["paired runs", "recorded batches"]
"""``paired runs``: a new run with the same seed and without the source. ``recorded batches``:
training again on the run's own batches without the source."""


class Ablated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of training without one source."""

    source: str
    method: Method
    success: Score
    """Held-out success of the last version."""

    off_policy: float | None = None
    """For recorded batches: the difference, in nats per token, between the policy that wrote the
    rollouts and the policy in training; the mean over the steps with a policy gradient. If it is
    much larger than in the run itself, this policy would not have sampled these batches, and the
    training may fail for that reason alone. None if it was not measured."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Held-out success with all sources and without one."""

    steps: int
    """Steps of the run when it was measured; the run may have taken more since."""

    start: Score
    final: Score
    off_policy: float | None = None
    """As in `Ablated`, with all sources."""

    without: tuple[Ablated, ...]
    """One entry for each source and method."""

    def beside(self, earlier: "Attribution | None") -> "Attribution":
        """Return these results, with those of ``earlier`` on the same steps that they lack."""
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
    """Merge the results into the file in the run's folder. Raises RunError."""
    path = run_dir / FILE
    whole = found.beside(read(run_dir))
    try:
        replace_file(path, msgspec.json.format(msgspec.json.encode(whole)))
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error}") from error


def read(run_dir: Path) -> Attribution | None:
    """Return the results so far; None if there are none. Raises RunError if the file is broken."""
    path = run_dir / FILE
    remedy = f"; remove it and measure again with `{COMMAND.format(run=run_dir)}`"
    with boundary(RunError, f"{path}: cannot be read", remedy):
        try:
            return msgspec.json.decode(bytes_of(path, MOST_BYTES), type=Attribution)
        except FileNotFoundError:
            return None


def known(run_dir: Path) -> Attribution | RunError | None:
    """Return the result of `read`, or its error, so that the caller can still report the rest."""
    try:
        return read(run_dir)
    except RunError as error:
        return error


def lines(found: Attribution) -> list[str]:
    """Return the results as text, one line per source."""
    gain = _points(found.final, found.start)
    return [
        f"held-out success {_grown(found.start, found.final)} in {found.steps} steps, {gain}",
        *(
            f"  without {each.source}, by {each.method}: {each.success.percent} "
            f"({_points(each.success, found.final)}){_distance(each, found)}"
            for each in found.without
        ),
    ]


def _grown(first: Score, last: Score) -> str:
    return f"{100 * first.mean:.1f} -> {last.percent}"


def _points(now: Score, before: Score) -> str:
    return f"{100 * (now.mean - before.mean):+.1f} points"


def summary(
    config: RunConfig, progress: Progress, found: Attribution | RunError | None
) -> list[tuple[str, str]]:
    """Return (what, value): the run's result and the effect of each source on it.

    The result needs two scored versions; effects need more than one source of gradient.
    """
    scores = progress.held_out()
    if len(scores) < 2:
        return []
    first, last = min(scores), max(scores)
    result = (
        f"held-out {progress.measure}, version {first} to {last}",
        f"{_grown(scores[first], scores[last])}, {_points(scores[last], scores[first])}",
    )
    return [result, *_effects(config, last, found)]


def _effects(
    config: RunConfig, last: int, found: Attribution | RunError | None
) -> list[tuple[str, str]]:
    """Return the effect of each source on the result after ``last`` steps."""
    learner = config.learner
    if learner.only_imitates or not learner.imitation.weight:
        return []
    if isinstance(found, RunError):
        return [("  effect of each source", str(found))]
    if found is None or found.steps != last:
        return [UNKNOWN]
    best = _by_best_method(found.without)
    shares = [
        (
            f"  lost without {each.source}, by {each.method}",
            _points(found.final, each.success),
        )
        for each in best.values()
    ]
    return [*shares, *([] if "objective" in best else [UNKNOWN])]


def _by_best_method(found: Iterable[Ablated]) -> dict[str, Ablated]:
    """Return one result per source; that of paired runs if there is one."""
    ordered = sorted(found, key=lambda each: each.method == "paired runs")
    return {each.source: each for each in ordered}


def _distance(ablated: Ablated, found: Attribution) -> str:
    if ablated.method == "paired runs":
        return ""
    own = "not measured" if found.off_policy is None else f"{found.off_policy:.3f}"
    without = "not measured" if ablated.off_policy is None else f"{ablated.off_policy:.3f}"
    return f"; nats off policy: {without}, with every source {own}"
