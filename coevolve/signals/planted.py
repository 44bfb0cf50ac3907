"""Losses that are planted into a recorded run: who finds them, and how often for nothing?

The run's own visits (which task, when, by which version) go in order through the detector that a
run uses. From a version on, a *planted loss* takes successes away from every visit of turns that
need one *part* (`coevolve.signals.skill_model`), as if the part's logit had fallen by `LOGITS`:

- Before the loss, turns with m parts are passed at the rate q, counted over the visits of the
  `HORIZON` versions before it. If all parts are alike, each is managed at the rate s = q^(1/m).
- Since a turn needs all of its parts, its rate falls by the factor f = sigma(logit(s) - LOGITS) / s
  and no other. So each rollout that passed such a turn fails at it now with probability 1 - f,
  independently of all else; it comes to no later turn, and has no success.

Failures stay as they are. What is planted are the parts that the policy manages at `LEAST_RATE` or
more, with at least `ENOUGH` visits within `HORIZON` versions, at every `HORIZON`-th version. The
loss is *found* if a signal ``forgetting`` within `HORIZON` versions names the part, a skill that
holds it, or a task with it. *By chance* is how often the unplanted run has such a signal there: a
rule that always fires finds everything. Each such signal of the unplanted run counts as a false
alarm, although a policy that trains may really have lost something.

Only what follows the policy is simulated: the run would have drawn other tasks after a real loss.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from coevolve.signals.detector import Detector, DetectorState
from coevolve.signals.skill_model import PartsOf
from protocols.config import RunConfig
from protocols.evolution import SKILL, GroupSummary, OnPattern, OnTask, Signal, SkillCount
from protocols.evolution_config import SignalsConfig

HORIZON = 30
"""Policy versions."""

LOGITS = 2.0
LEAST_RATE, MOST_RATE = 0.5, 0.98
"""Of a part before its loss; above the second it counts as the second."""

ENOUGH = 8

SHOWN = 100
"""Tasks that are visited while the time of a visit is measured."""

RuleSet = Literal["posterior", "paper", "skills"]

OpenDetector = Callable[[RunConfig], Detector]
"""Returns the detector that a run with these settings has, empty."""


class Loss(NamedTuple):
    """One planted loss."""

    part: str
    version: int
    kept: float
    """Share of the successes that are left, 0..1."""


@dataclass(frozen=True)
class Found:
    """What one set of rules found in one run."""

    losses: int
    delays: tuple[int, ...]
    """Policy versions until it was found, of each loss that was."""

    by_chance: int
    """Losses that the run without them would have counted as found."""

    false_alarms: int


class Recording:
    """The visits of a recorded run."""

    def __init__(
        self, visits: Iterable[GroupSummary], config: RunConfig, opens: OpenDetector
    ) -> None:
        """``config`` is the run's own."""
        self.visits = [visit for visit in visits if visit.rollouts]
        self.config = config
        self._opens = opens
        self._parts_of = opens(config).parts_of
        self._tasks: dict[str, set[str]] = {}
        for visit in self.visits:
            self._tasks.setdefault(visit.task_id, set()).update(_parts(visit, self._parts_of))

    @property
    def last(self) -> int:
        """The newest policy version; 0 without visits."""
        return max((visit.version_max for visit in self.visits), default=0)

    def losses(self, most: int, seed: int) -> list[Loss]:
        """Return the losses to plant, ``most`` of them at most, drawn from all."""
        starts = range(HORIZON, self.last - HORIZON + 1, HORIZON)
        every = [loss for version in starts for loss in self._losses_at(version)]
        chosen = np.random.default_rng(seed).permutation(len(every))[:most]
        return [every[number] for number in chosen.tolist()]

    def detector(self, signals: SignalsConfig, tasks: int = 0) -> Detector:
        """Return an empty detector with other settings of the signals.

        It remembers as many tasks as the run's own, and ``tasks``.
        """
        pool = replace(self.config.pool, capacity=self.config.pool.capacity + tasks)
        return self._opens(replace(self.config, signals=signals, pool=pool))

    def found(self, signals: SignalsConfig, losses: Sequence[Loss], seed: int) -> Found:
        """Return what the rules find of ``losses``, each planted alone.

        The same seed plants the same whatever the rules are.
        """
        signals = replace(signals, kinds=("forgetting",))
        states, quiet = self._replay(signals, {self._start(loss.version) for loss in losses})
        rngs = np.random.default_rng(seed).spawn(len(losses))
        delays = [
            self._delay(self._alarms(signals, states[self._start(loss.version)], loss, rng), loss)
            for loss, rng in zip(losses, rngs, strict=True)
        ]
        return Found(
            losses=len(losses),
            delays=tuple(delay for delay in delays if delay is not None),
            by_chance=sum(self._delay(quiet, loss) is not None for loss in losses),
            false_alarms=len(quiet),
        )

    def _losses_at(self, version: int) -> Iterator[Loss]:
        before, after = Rates(), Rates()
        for visit in self.visits:
            if version - HORIZON <= visit.version_min and visit.version_max < version:
                before.add(visit, self._parts_of)
            elif version <= visit.version_min and visit.version_max <= version + HORIZON:
                after.add(visit, self._parts_of)
        for part in sorted(before.counts):
            rate = min(before.rate(part), MOST_RATE)
            if rate >= LEAST_RATE and after.visits(part) >= ENOUGH:
                fallen = 1 / (1 + (1 - rate) / rate * math.exp(LOGITS))
                yield Loss(part, version, fallen / rate)

    def _start(self, version: int) -> int:
        """Return the place of the first visit by a version."""
        return next(n for n, visit in enumerate(self.visits) if visit.version_min >= version)

    def _replay(
        self, signals: SignalsConfig, places: set[int]
    ) -> tuple[Mapping[int, bytes], list[Signal]]:
        """Return the states before the visits at ``places``, and all alarms."""
        detector, states, alarms = self.detector(signals), dict[int, bytes](), list[Signal]()
        for place, visit in enumerate(self.visits):
            if place in places:
                states[place] = msgspec.msgpack.encode(detector.state)
            alarms += _forgetting(detector.judge(visit))
        return states, alarms

    def _alarms(
        self, signals: SignalsConfig, state: bytes, loss: Loss, rng: np.random.Generator
    ) -> Iterator[Signal]:
        """Yield the alarms after a loss, within the horizon or little more."""
        detector = self.detector(signals)
        detector.state = msgspec.msgpack.decode(state, type=DetectorState)
        for visit in self.visits[self._start(loss.version) :]:
            if visit.version_min > loss.version + HORIZON:
                return
            yield from _forgetting(detector.judge(thinned(visit, loss, self._parts_of, rng)))

    def _delay(self, alarms: Iterable[Signal], loss: Loss) -> int | None:
        """Return the policy versions until one of ``alarms`` is about a loss; None without one."""
        for each in alarms:
            delay = each.policy_version - loss.version
            if 0 <= delay <= HORIZON and loss.part in self._parts_about(each):
                return delay
        return None

    def _parts_about(self, signal: Signal) -> Iterable[str]:
        match signal.about:
            case OnTask(task_id=task_id):
                return self._tasks.get(task_id, ())
            case OnPattern(kind=kind, pattern=pattern) if kind == SKILL:
                return self._parts_of(pattern)
            case _:
                return ()


class Rates:
    """How turns with a part are passed, by part."""

    def __init__(self) -> None:
        self.counts: dict[str, list[tuple[SkillCount, int]]] = {}
        """Visits of turns with the part, and how many parts each turn has."""

    def add(self, visit: GroupSummary, parts_of: PartsOf) -> None:
        """Add a visit."""
        for each in visit.skills:
            parts = set(parts_of(each.skill))
            for part in parts:
                self.counts.setdefault(part, []).append((each, len(parts)))

    def visits(self, part: str) -> int:
        """Return the number of visits of turns with a part."""
        return len(self.counts.get(part, ()))

    def rate(self, part: str) -> float:
        """Return the rate at which a part is managed, 0..1; it needs a visit."""
        counts = self.counts[part]
        passed = sum(each.passed for each, _ in counts)
        attempts = sum(each.attempts for each, _ in counts)
        parts = sum(number for _, number in counts) / len(counts)
        return (passed / attempts) ** (1 / parts)


def thinned(
    visit: GroupSummary, loss: Loss, parts_of: PartsOf, rng: np.random.Generator
) -> GroupSummary:
    """Return a visit with the successes that a loss leaves; see the module's first lines."""
    if visit.version_min < loss.version or loss.part not in _parts(visit, parts_of):
        return visit
    # Rollouts in the order of how far they came: the first `passed` ones are those that passed.
    alive_R = np.ones(visit.rollouts, bool)
    skills: list[SkillCount] = []
    for each in visit.skills:
        attempts = _count(alive_R, each.attempts)
        if loss.part in parts_of(each.skill):
            alive_R &= rng.random(visit.rollouts) < loss.kept
        if attempts:
            passed = min(attempts, _count(alive_R, each.passed))
            skills.append(replace(each, attempts=attempts, passed=passed))
    return replace(visit, skills=tuple(skills), successes=_count(alive_R, visit.successes))


def microseconds(run: Recording, rules: RuleSet, tasks: int) -> float:
    """Return the CPU time of a visit where so many ``tasks`` are remembered.

    They are copies of the tasks that the run visited last, which are then visited again.
    """
    detector = run.detector(replace(run.config.signals, rules=rules), tasks)
    for visit in run.visits:
        detector.judge(visit)
    state = detector.state
    known = list(state.history.tasks.items())[-SHOWN:]
    copies = range(tasks // len(known))
    state.history.tasks = {f"{name}-{n}": copy(task) for n in copies for name, task in known}
    detector.state = state
    again = [
        replace(visit, task_id=f"{known[n % len(known)][0]}-0", version_min=at, version_max=at)
        for n, visit in enumerate(run.visits)
        for at in (run.last + 1 + n // 8,)
    ]
    began_s = time.process_time()
    for visit in again:
        detector.judge(visit)
    return 1e6 * (time.process_time() - began_s) / len(again)


def _parts(visit: GroupSummary, parts_of: PartsOf) -> set[str]:
    return {part for each in visit.skills for part in parts_of(each.skill)}


def _count(alive_R: NDArray[np.bool_], first: int) -> int:
    """Return how many of the ``first`` rollouts are alive; they begin anew after the last."""
    return int(np.resize(alive_R, first).sum())


def _forgetting(signals: Iterable[Signal]) -> Iterator[Signal]:
    return (each for each in signals if each.kind == "forgetting")
