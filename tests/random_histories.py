"""Random histories of a run with synthesized tasks, in an order in which parts could write them."""

import random
from collections.abc import Iterator

import msgspec

from protocols.control import (
    CopyFailed,
    DeadLetter,
    PartFailed,
    PartsRest,
    RolloutScaled,
    RunContinued,
    RunCopied,
    RunPaused,
    RunResumed,
    Stalled,
)
from protocols.evolution import ModelAnswers, Parked, Refused, SignalKind, SwapRefused
from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Evaluation,
    NothingDelivered,
    PolicyRegressed,
    TaskScore,
    WeightsVerified,
    WeightSyncAlarm,
)
from protocols.tasks import Continued
from tests import evolving

KINDS: tuple[SignalKind, ...] = ("forgetting", "boundary", "rare")
MODELS = ("policy@0", "policy@7", "glm")


class History:
    """A run whose messages depend on a seed alone."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.tasks = [f"seed-{number}" for number in range(3)]
        self.signals: list[str] = []
        self._roots = dict(zip(self.tasks, self.tasks, strict=True))
        self._unsettled: list[tuple[str, SignalKind]] = []
        self._unjudged: list[tuple[str, str]] = []
        self._step = 0

    def opening(self) -> Iterator[Message]:
        """Yield the seed tasks."""
        yield from map(evolving.seed, self.tasks)

    def events(self, number: int) -> Iterator[Message]:
        """Yield the messages of the next event, with a number of its own."""
        kinds = (
            *(self._visit, self._visit, self._train, self._signal, self._settle, self._judge),
            *(self._judge, self._follow, self._steer, self._score, self._deliver, self._fail),
        )
        yield from self._chance.choice(kinds)(number)

    def _visit(self, number: int) -> Iterator[Message]:
        task = self._chance.choice(list(self._roots))
        visit = evolving.visit(task, self._chance.randint(0, 8), number)
        yield msgspec.structs.replace(visit, root=self._roots[task])

    def _train(self, number: int) -> Iterator[Message]:
        self._step += 1
        tasks = self._chance.choices(list(self._roots), k=2)
        step = evolving.stepped(self._step, *tasks)
        metrics = {"actor/lr": number / 7, "timing_s/param_sync": self._chance.random()}
        yield msgspec.structs.replace(step, metrics=metrics)
        if self._chance.random() < 0.3:
            yield evolving.discarded(number)

    def _signal(self, number: int) -> Iterator[Message]:
        name, kind = f"s{number}", self._chance.choice(KINDS)
        task = self._chance.choice(self.tasks)
        yield evolving.signal(name, task, kind, pattern=self._chance.choice(["", "mkdir"]))
        self.signals.append(name)
        self._unsettled.append((name, kind))

    def _settle(self, number: int) -> Iterator[Message]:
        if not self._unsettled:
            return
        (name, kind), by = self._unsettled.pop(), self._chance.choice(MODELS)
        candidates = [f"c{number}-{place}" for place in range(self._chance.randint(0, 2))]
        yield evolving.called(name, by, tokens=10 + number)
        yield evolving.exploration(f"e-{name}", name)
        for each in candidates:
            yield evolving.candidate(each, name, by)
            self._unjudged.append((each, name))
        yield evolving.settled(name, len(candidates), by, kind)

    def _judge(self, number: int) -> Iterator[Message]:
        if not self._unjudged:
            return
        candidate, cause = self._chance.choice(self._unjudged)
        if self._chance.random() < 0.5:
            yield evolving.probed(candidate, self._chance.randint(0, 4))
            yield evolving.verdict(candidate, cause, Parked(probe_rollouts=4))
            return
        self._unjudged.remove((candidate, cause))
        if self._chance.random() < 0.3:
            yield evolving.verdict(candidate, cause, Refused(gate="duplicate", found=""))
            return
        task = f"m{number}"
        yield from evolving.admission(candidate, cause, task)
        self.tasks.append(task)
        self._roots[task] = task

    def _follow(self, number: int) -> Iterator[Message]:
        root = self._chance.choice(self.tasks)
        origin = Continued(root=root, rollout="g0/1")
        following = evolving.made(f"{root}/1/{number}", "", "")
        yield msgspec.structs.replace(following, origin=origin)
        self._roots[following.task_id] = root

    def _steer(self, number: int) -> Iterator[Message]:
        yield self._chance.choice(
            [
                RunPaused(run_id="r"),
                RunContinued(run_id="r"),
                RunResumed(run_id="r", config=""),
                evolving.measured(number),
                evolving.swapped(f"r{number}", self._chance.choice(MODELS)),
                SwapRefused(request_id=f"r{number}", reason="no answer"),
                RolloutScaled(cause="request", actors=1, engines=("rollout-0",)),
                ModelAnswers(synthesizer="glm"),
            ]
        )

    def _score(self, number: int) -> Iterator[Message]:
        scores = tuple(
            TaskScore(task_id=task, turns_passed=self._chance.randint(0, 1), turns_total=1)
            for task in ("a", "b")
        )
        yield Evaluation(version=number, scores=scores, errors=0, wall_s=0.5)
        yield CanaryScores(version=number, scores=scores, errors=0)

    def _deliver(self, number: int) -> Iterator[Message]:
        yield WeightsVerified(
            engine=f"rollout-{self._chance.randint(0, 1)}",
            version=number,
            digest="",
            max_abs_difference=self._chance.random(),
            wall_s=0.1,
            pause_s=self._chance.random(),
            proven_ns=number,
        )

    def _fail(self, number: int) -> Iterator[Message]:
        reason = NothingDelivered(waited_s=300.0, newest=number)
        yield self._chance.choice(
            [
                PartFailed(part=self._chance.choice(["learner", "signals"]), reason=str(number)),
                PartsRest(causes={"signals": "it failed"}),
                Stalled(quiet_s=9.0, waiting=()),
                WeightSyncAlarm(engine="rollout-0", version=number, reason=reason),
                CopyFailed(reason="disk full"),
                _copied(number),
                _regressed(number),
                _letter(number),
            ]
        )


def _copied(number: int) -> RunCopied:
    return RunCopied(number=number, step=0, records=9, size_bytes=9, sent_bytes=9, wall_s=0.1)


def _letter(number: int) -> DeadLetter:
    return DeadLetter(
        consumer="signals", sequence=number, unit="a group", subject="1", attempts=3, reason="?"
    )


def _regressed(number: int) -> PolicyRegressed:
    return PolicyRegressed(
        version=number,
        score=0.1,
        best_version=0,
        best_score=0.5,
        lost=4,
        gained=0,
        canaries=6,
        chance=0.01,
        action="warn",
    )
