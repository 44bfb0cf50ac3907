"""A mean score on tasks with its standard error, and the version that such scores choose.

Every surface shows a score as one of these. The method is the same everywhere: Wilson's 95 %
interval of a share (JASA 22, 1927) with an effective number of trials, m (1 - m) / v, where m is
the mean and v its variance over the choice of tasks. Several attempts at one task are one cluster
in v, because they are not independent. For one attempt a task and scores of 0 and 1, this is
Wilson's interval itself. The standard error is a 3.92th of the interval's width, so it is above 0
even if every attempt failed.

The best of several versions by a score is partly the luckiest one, so that score is too high for
it. Therefore one set of tasks chooses a version, and another reports its score (`Choice`).
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

NORMAL = 1.959964
"""Half the width of a 95 % interval, in standard errors."""

LEAST = 20
"""Minimum number of tasks in each half of the held-out tasks."""

Half = Literal["selection", "reporting"]
HALVES: tuple[Half, ...] = ("selection", "reporting")

ChosenOn = Literal["canaries", "tasks of one held-out half", "held-out tasks"]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of scores in [0, 1]."""

    mean: float
    tasks: int
    """Number of different tasks, at least 1."""

    std_error: float
    """Standard error of the mean, over the choice of tasks."""

    low: float
    """Lower end of the 95 % interval."""

    high: float

    @property
    def percent(self) -> str:
        """Return the mean and its standard error as ``57.1 ± 2.3 %``."""
        return f"{100 * self.mean:.1f} \N{PLUS-MINUS SIGN} {100 * self.std_error:.1f} %"

    @property
    def interval(self) -> str:
        """Return the mean and its 95 % interval, in percent, as ``57.1 [52.6, 61.4]``."""
        return f"{100 * self.mean:.1f} [{self.ends}]"

    @property
    def ends(self) -> str:
        """Return the ends of the 95 % interval, in percent, as ``52.6, 61.4``."""
        return f"{100 * self.low:.1f}, {100 * self.high:.1f}"


def score_of(scores: Iterable[tuple[str, float]]) -> Score:
    """Return the mean of (task id, score) over all attempts; needs at least one."""
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for task_id, score in scores:
        clusters[task_id].append(score)
    attempts = sum(map(len, clusters.values()))
    mean = sum(map(sum, clusters.values())) / attempts
    variance = sum((sum(each) - mean * len(each)) ** 2 for each in clusters.values()) / attempts**2
    spread = mean * (1 - mean)
    trials = spread / variance if variance > 0 and spread > 0 else float(len(clusters))
    low, high = wilson(mean, trials)
    return Score(
        mean=mean,
        tasks=len(clusters),
        std_error=(high - low) / (2 * NORMAL),
        low=low,
        high=high,
    )


def compared(old: Score, new: Score) -> Literal["rose", "fell", ""]:
    """Return how a score changed beyond chance: the two intervals (95 %) do not overlap."""
    return "rose" if new.low > old.high else "fell" if new.high < old.low else ""


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """The mean difference between two scores of each task, in [-1, 1]."""

    mean: float
    std_error: float
    """Standard error of the mean, over the choice of tasks; 0 for a single task."""

    @property
    def points(self) -> str:
        """Return the mean and its standard error as ``+12.5 ± 2.3 points``."""
        return f"{100 * self.mean:+.1f} \N{PLUS-MINUS SIGN} {100 * self.std_error:.1f} points"


def movement(before: Mapping[str, float], after: Mapping[str, float]) -> Movement | None:
    """Return how the scores by task id moved; None unless both are of the same tasks.

    The difference task by task has a smaller error than the two means, because the tasks' own
    difficulty is in both scores.
    """
    if not before or before.keys() != after.keys():
        return None
    moves = [after[task_id] - score for task_id, score in before.items()]
    mean = sum(moves) / len(moves)
    spread = sum((each - mean) ** 2 for each in moves) / max(1, len(moves) - 1)
    return Movement(mean=mean, std_error=math.sqrt(spread / len(moves)))


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Return the 95 % interval of a share in [0, 1] of ``trials`` > 0 independent trials."""
    z2 = NORMAL**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(max(0.0, z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))))
    half /= 1 + z2 / trials
    return max(0.0, centre - half), min(1.0, centre + half)


def half_of(name: str) -> Half:
    """Return the half of the held-out tasks that a task is in, by the name of its scenario.

    The variants of a scenario are alike, so they are in one half. A task without a scenario goes
    by its id. The half depends on the name alone.
    """
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The best of several versions, with the scores that chose it and those that did not."""

    version: int
    chosen_on: ChosenOn
    among: int
    """Number of versions that it was chosen from."""

    choosing: Score
    """Score that chose it; too high, if it was chosen from several versions."""

    reported: Score | None
    """Score on held-out tasks that took no part in the choice; None if it has none."""

    @property
    def is_told(self) -> bool:
        """Whether there is a best version: several have scores, and not all scores are 0."""
        return self.among > 1 and self.choosing.mean > 0

    @property
    def origin(self) -> str:
        """Return how it was chosen, in words."""
        return f"version {self.version}, {self.manner}"

    @property
    def manner(self) -> str:
        """Return by what it was chosen, and from how many."""
        return f"chosen from {self.among} by {self.choosing.tasks} {self.chosen_on}"

    def sentence(self, measure: str) -> str:
        """Return how it was chosen, and its score on tasks that took no part in that."""
        if self.reported is not None:
            score = f"{measure} {self.reported.percent}"
            return f"{self.origin}; {score} of {self.reported.tasks} held-out tasks, {APART}"
        if self.chosen_on == "held-out tasks":
            return f"{self.origin}; {measure} {self.choosing.percent} of these, {TOO_HIGH}"
        return f"{self.origin}; not scored on held-out tasks: {SCORE_IT}"

    @property
    def brief(self) -> str:
        """Return the same in half a line."""
        best = f"version {self.version}, best of {self.among} by"
        if self.chosen_on == "held-out tasks":
            mean = f"{100 * self.choosing.mean:.1f} %"
            return f"{best} the same {self.choosing.tasks} tasks: {mean} is too high"
        score = "not scored" if self.reported is None else self.reported.percent
        if self.chosen_on == "canaries":
            return f"{best} {self.choosing.tasks} canaries; {score} held out"
        return f"{best} half of the held-out tasks; {score} on the others"


SCORE_IT = "use `coevolve evaluate RUN --version best`"
APART = "which did not choose it"
TOO_HIGH = f"which is too high: they are too few for two halves of {LEAST}"


def choice(
    canaries: Mapping[int, Score],
    halves: Mapping[int, Mapping[Half, Score]],
    held_out: Mapping[int, Score],
    versions: Iterable[int],
) -> Choice | None:
    """Return the best of ``versions``, the newest of equals; None if none of them has a score.

    The guard's canaries choose if there are any, because no result is reported on them. Otherwise
    one half of the held-out tasks chooses, and the other half reports.
    """
    among = set(versions)
    halved = bool(halves) and all(
        half in each and each[half].tasks >= LEAST for each in halves.values() for half in HALVES
    )
    selecting = {version: each["selection"] for version, each in halves.items() if halved}
    reporting = {version: each["reporting"] for version, each in halves.items() if halved}
    ways: tuple[tuple[ChosenOn, Mapping[int, Score], Mapping[int, Score]], ...] = (
        ("canaries", canaries, held_out),
        ("tasks of one held-out half", selecting, reporting),
        ("held-out tasks", held_out, {}),
    )
    for chosen_on, choosing, reported in ways:
        scored = among & choosing.keys()
        if scored:
            best = max(scored, key=lambda version: (choosing[version].mean, version))
            return Choice(
                version=best,
                chosen_on=chosen_on,
                among=len(scored),
                choosing=choosing[best],
                reported=reported.get(best),
            )
    return None
