"""Tracks, for the learner, which rollout engines have proven each published policy version.

An engine that skips a version proves it with a newer one. Proofs from before the run was opened do
not count, because those engines no longer exist. Time in which an engine has to stay at an older
version, because that one is scored, does not count either.
"""

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from coevolve.delivery.alarms import sentence
from coevolve.delivery.engine import Announce
from coevolve.delivery.sampler import (
    ON_POLICY_DIFFERENCE,
    ON_POLICY_TOKENS,
    SamplerWatch,
    tolerance_of,
)
from coevolve.journal.codec import decode_as, topic_of
from coevolve.rollouts.scored_versions import newest_scores, unscored_version
from protocols.config import RunConfig
from protocols.control import RunResumed, RunStarted
from protocols.errors import DeliveryError
from protocols.interfaces import Reader
from protocols.learning import NothingDelivered, WeightsVerified, WeightSyncAlarm


def rollout_engines(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the engines that must serve every published version."""
    return tuple(f"rollout-{number}" for number in range(config.rollout.actors))


class WeightSyncMonitor:
    """The engines' proofs so far; reads new records from the journal only on request."""

    def __init__(self, config: RunConfig, *, reader: Reader, append: Announce) -> None:
        engines = rollout_engines(config)
        self._config = config
        self._timeout_s = config.delivery.timeout_s
        self._sampler = SamplerWatch(tolerance_of(config))
        self._reader = reader
        self._append = append
        self._newest = dict.fromkeys(engines, -1)
        """Engine -> newest version that it has proven since the run was opened."""

        self._open: deque[_Published] = deque()
        """Versions that not all engines have proven, oldest first."""

        self._seen = 0
        self._opened = 0
        self._news: dict[str, float] = {}

    def published(self, version: int) -> None:
        """Expect proofs of ``version``, or of a newer one, from now on."""
        if version > min(self._newest.values()):
            self._open.append(_Published(version, time.time_ns(), time.monotonic()))

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
        while page := await self._reader.scan(topic_of(WeightsVerified), after=self._seen):
            for record in page:
                self._fold(decode_as(record, WeightsVerified))
            self._seen = page[-1].sequence
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

        self._open = deque(each._replace(since_s=free_since_s(each)) for each in self._open)

    def _fold(self, proof: WeightsVerified) -> None:
        if proof.engine not in self._newest:
            return
        self._newest[proof.engine] = max(self._newest[proof.engine], proof.version)
        self._keep_largest("delivery/max_abs_logprob_difference", proof.max_abs_difference)
        self._keep_largest("timing_s/param_sync_pause", proof.pause_s)
        while self._open and self._open[0].version <= min(self._newest.values()):
            since_ns = self._open.popleft().time_ns
            self._news["timing_s/param_sync"] = max(0, proof.proven_ns - since_ns) / 1e9

    def _keep_largest(self, name: str, value: float) -> None:
        self._news[name] = max(self._news.get(name, 0.0), value)

    def _overdue(self, overdue: "_Published") -> WeightSyncAlarm:
        late = next(e for e, newest in self._newest.items() if newest < overdue.version)
        waited_s = time.monotonic() - overdue.since_s
        return WeightSyncAlarm(
            engine=late,
            version=overdue.version,
            reason=NothingDelivered(waited_s=waited_s, newest=self._newest[late]),
        )

    async def _record_alarm(self, alarm: WeightSyncAlarm) -> DeliveryError:
        """Record the alarm and return it as an error."""
        await self._append([alarm])
        return DeliveryError(sentence(alarm))


class _Published(NamedTuple):
    """A version with proofs still to come."""

    version: int
    time_ns: int
    """Unix time."""

    since_s: float
    """Since when engines are free to serve it, on the monotonic clock."""
