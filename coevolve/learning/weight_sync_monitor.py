"""Tracks, for the learner, which rollout engines have proven each published policy version.

The journal says which engines the run has (`protocols.control.RolloutScaled`). An engine that skips
a version proves it with a newer one. Proofs from before the run was opened do not count, because
those engines no longer exist. An engine that was added later has to prove the versions that are
published after its first proof. An engine that was let go has to prove nothing more. Time in which
an engine has to stay at an older version, because that one is scored, does not count.
"""

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from coevolve.delivery.alarms import sentence
from coevolve.delivery.sampler import (
    ON_POLICY_DIFFERENCE,
    ON_POLICY_TOKENS,
    SamplerWatch,
    tolerance_of,
)
from coevolve.journal.codec import decode_as, topic_of, topics_of
from coevolve.journal.fold import fold
from coevolve.journal.mailbox import Appender
from coevolve.rollouts.scored_versions import newest_scores, unscored_version
from protocols.config import RunConfig
from protocols.control import RolloutScaled, RunResumed, RunStarted
from protocols.errors import DeliveryError
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.learning import NothingDelivered, WeightsVerified, WeightSyncAlarm

TOPICS = topics_of(RolloutScaled, WeightsVerified)


class WeightSyncMonitor:
    """The engines' proofs so far; reads new records from the journal only on request."""

    def __init__(self, config: RunConfig, *, reader: Reader, append: Appender) -> None:
        self._config = config
        self._timeout_s = config.delivery.timeout_s
        self._sampler = SamplerWatch(tolerance_of(config))
        self._reader = reader
        self._append = append
        self._newest: dict[str, int] = {}
        """Engine that has to prove versions -> newest that it has proven since the opening."""

        self._joining: set[str] = set()
        """Engines that were added and have proven nothing yet."""

        self._open: deque[_Published] = deque()
        """Versions that not all engines have proven, oldest first."""

        self._seen = 0
        self._opened = 0
        self._news: dict[str, float] = {}

    def published(self, version: int) -> None:
        """Expect proofs of ``version``, or of a newer one, from now on."""
        missing = {engine for engine, newest in self._newest.items() if newest < version}
        if missing:
            self._open.append(_Published(version, time.time_ns(), time.monotonic(), missing))

    @property
    def left_s(self) -> float:
        """Seconds until the next proof is overdue; the full timeout if no proof is expected."""
        if not self._open:
            return self._timeout_s
        return max(0.0, self._open[0].since_s + self._timeout_s - time.monotonic())

    async def check(self) -> None:
        """Read the engines' new records. Raises DeliveryError if there is an alarm."""
        await self._find_opening()
        alarm = await self._reader.last(topic_of(WeightSyncAlarm))
        if alarm is not None and alarm.sequence > self._opened:
            raise DeliveryError(sentence(decode_as(alarm, WeightSyncAlarm)))
        self._seen = await fold(self._reader, TOPICS, self._fold, after=self._seen)
        if self._open and not self.left_s and self._config.evaluator.engine == "rollout":
            await self._excuse_scoring()
        if self._open and not self.left_s:
            raise await self._record_alarm(self._overdue(self._open[0]))

    async def sampled(self, step: int, metrics: Mapping[str, float]) -> None:
        """Compare engine and learner on tokens that the version before step ``step`` sampled.

        Raises DeliveryError if learner and sampler cannot have the same weights, or do not compute
        the same.
        """
        tokens = int(metrics.get(ON_POLICY_TOKENS, 0))
        wrong = self._sampler.add(metrics[ON_POLICY_DIFFERENCE], tokens) if tokens else None
        if wrong is not None:
            engines = " or ".join(self._newest)
            raise await self._record_alarm(
                WeightSyncAlarm(engine=engines, version=step - 1, reason=wrong)
            )

    def metrics(self) -> dict[str, float]:
        """Return the new metrics of weight sync since the last call.

        ``timing_s/param_sync`` is the time from a version's publication to the last engine's proof
        of it or of a newer one, for the newest version that all engines have proven.
        """
        news, self._news = self._news, {}
        return news

    async def _find_opening(self) -> None:
        """Skip records from before the run was opened, because other engines wrote them."""
        if self._opened:
            return
        for topic in (topic_of(RunStarted), topic_of(RunResumed)):
            opening = await self._reader.last(topic)
            self._opened = max(self._opened, opening.sequence if opening else 0)
        self._seen = max(self._seen, self._opened)

    async def _excuse_scoring(self) -> None:
        """Do not count time in which engines had to stay at an older version that was scored."""
        unscored = await unscored_version(self._reader, self._config)
        scored, ended_ago_s = await newest_scores(self._reader)
        now_s = time.monotonic()

        def free_since_s(published: _Published) -> float:
            if unscored is not None and unscored.version < published.version:
                return now_s
            freed_s = now_s - ended_ago_s if scored < published.version else -math.inf
            return max(published.since_s, freed_s)

        for each in self._open:
            each.since_s = free_since_s(each)

    def _fold(self, message: Message) -> None:
        match message:
            case RolloutScaled(cause="start", engines=engines):
                self._newest = dict.fromkeys(engines, -1)
            case RolloutScaled(engines=engines):
                self._change(set(engines))
            case WeightsVerified(engine=engine) if engine in self._joining | self._newest.keys():
                self._joining.discard(engine)
                self._add_proof(message)
            case _:
                pass

    def _change(self, engines: set[str]) -> None:
        """Expect proofs of the engines that the run has now."""
        gone = self._newest.keys() - engines
        self._newest = {name: x for name, x in self._newest.items() if name in engines}
        self._joining = engines - self._newest.keys()
        for published in self._open:
            published.missing -= gone
        self._close()

    def _add_proof(self, proof: WeightsVerified) -> None:
        self._newest[proof.engine] = max(self._newest.get(proof.engine, -1), proof.version)
        self._keep_largest("delivery/max_abs_logprob_difference", proof.max_abs_difference)
        self._keep_largest("timing_s/param_sync_pause", proof.pause_s)
        for published in self._open:
            if published.version <= proof.version:
                published.missing.discard(proof.engine)
        for published in self._close():
            self._news["timing_s/param_sync"] = max(0, proof.proven_ns - published.time_ns) / 1e9

    def _close(self) -> list["_Published"]:
        """Forget the versions that wait for no proof any more, and return them.

        A version waits for all engines that an older one waits for.
        """
        closed: list[_Published] = []
        while self._open and not self._open[0].missing:
            closed.append(self._open.popleft())
        return closed

    def _keep_largest(self, name: str, value: float) -> None:
        self._news[name] = max(self._news.get(name, 0.0), value)

    def _overdue(self, overdue: "_Published") -> WeightSyncAlarm:
        late = min(overdue.missing)
        waited_s = time.monotonic() - overdue.since_s
        return WeightSyncAlarm(
            engine=late,
            version=overdue.version,
            reason=NothingDelivered(waited_s=waited_s, newest=self._newest[late]),
        )

    async def _record_alarm(self, alarm: WeightSyncAlarm) -> DeliveryError:
        await self._append([alarm])
        return DeliveryError(sentence(alarm))


@dataclass
class _Published:
    """A version with proofs still to come."""

    version: int
    time_ns: int
    """Unix time."""

    since_s: float
    """Since when engines are free to serve it, on the monotonic clock."""

    missing: set[str]
    """Engines that have to prove it, or a newer one."""
