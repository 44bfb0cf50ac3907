"""Proof that every engine serves the published policy version.

After each change of weights, an engine reports (`protocols.learning.ServedWeights`) the digest of
the files it read, checksums of the tensors that now sample, its other settings, and its logprobs of
some tokens. `VerifiedEngine` runs beside the engine and compares the report with the version's
record and files. `coevolve.learning.weight_sync_monitor` waits for the outcome beside the learner.
Four checks must pass:

1. The digest of the files, including an adapter's settings, is the recorded one.
2. Every row of every tensor, in the served precision, and every setting match
   (`coevolve.delivery.tensors`).
3. The logprobs of the version's `protocols.learning.Probe` match within a tolerance.
4. If most weights changed, the logprobs are not identical in every bit to those of the version
   before.

In addition, the learner compares its logprobs with the sampler's (`coevolve.delivery.sampler`).

Guarantees:

- Each version that an engine serves gets a `WeightsVerified` record of that engine, or a
  `WeightSyncAlarm`. A version that an engine skipped, because a newer one existed, needs no proof.
- After an alarm, no further step is taken until the run is resumed. Every engine then proves the
  newest version again. An alarm ends the run instead of pausing it, because terminals, batch
  systems and service supervisors notice a failed process; no work is lost.
- An engine that is slow, dies, or skips versions raises no alarm within ``delivery.timeout_s``.

Not covered: the engine may sample tokens between the change of weights and the end of the
comparison; their logprobs are those of the weights that sampled them.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from coevolve.delivery.alarms import fault
from coevolve.delivery.probe import ProbeDifference, is_exact, probe_difference, tolerance_of
from coevolve.journal.lookups import all_of
from coevolve.models.model_folder import model_folder
from coevolve.models.weight_files import SPARE, version_digest
from coevolve.parts.context import PartContext
from protocols.errors import DeliveryError, GeneratorError, TransferError
from protocols.interfaces import Generator
from protocols.learning import (
    NothingDelivered,
    OldVersionServed,
    PolicyVersion,
    ServedWeights,
    SettingsDiffer,
    TensorsDiffer,
    WeightsDiffer,
    WeightsVerified,
    WeightSyncAlarm,
)

if TYPE_CHECKING:
    from coevolve.delivery.tensors import Compared, TensorComparison

CHANGED = 0.5
"""Share of changed rows above which the probe's logprobs must change in some bit."""

Reason = WeightsDiffer | TensorsDiffer | SettingsDiffer | OldVersionServed | NothingDelivered


class VerifiedEngine:
    """Wraps an engine and compares every change of its weights with the published version."""

    def __init__(self, context: PartContext, name: str, generator: Generator) -> None:
        """Wrap ``generator``, the engine of the part ``name``."""
        self.generator = generator
        self.version = -1
        """Policy version that was proven last; -1 if none."""
        self._name = name
        self._reader = context.reader
        self._append = context.appender("delivery", name)
        self._files = context.files
        self._config = context.config
        self._tolerance = tolerance_of(context.config)
        self._tensors: TensorComparison | None = None
        self._answer = b""
        """Logprobs of the last probe."""

    async def serve(self, version: PolicyVersion) -> WeightsVerified:
        """Load ``version`` into the engine; return the proof, for the caller to record.

        Raises:
            DeliveryError: The engine serves something else; the alarm is recorded.
            GeneratorError: The engine failed, or the version's folder is gone.
        """
        try:
            await self._fetch(version)
            served = await self.generator.load(version)
            compared = await asyncio.to_thread(self._compare_tensors, version, served)
        except GeneratorError:
            reason = await self._file_fault(version)
            if reason is None:
                raise
            raise await self._record_alarm(version, reason) from None
        difference = probe_difference(version, served.logprobs)
        reason = await self._find_mismatch(version, served, compared, difference)
        if reason is not None:
            raise await self._record_alarm(version, reason)
        self.version = version.version
        self._answer = served.logprobs
        return WeightsVerified(
            engine=self._name,
            version=version.version,
            digest=served.digest,
            rows=compared.rows,
            max_abs_difference=difference.most,
            wall_s=served.wall_s,
            pause_s=served.pause_s,
            proven_ns=time.time_ns(),
        )

    async def record(self, proof: WeightsVerified) -> None:
        """Record a proof that is not part of another write."""
        await self._append([proof])

    async def _fetch(self, version: PolicyVersion) -> None:
        """Have the version's files on this node. Raises GeneratorError."""
        keep = self._config.learner.max_staleness + SPARE + 1
        try:
            await self._files.fetch(version.path, keep=keep)
        except TransferError as error:
            raise GeneratorError(str(error)) from error

    async def _find_mismatch(
        self,
        version: PolicyVersion,
        served: ServedWeights,
        compared: "Compared",
        difference: ProbeDifference,
    ) -> Reason | None:
        """Return the first mismatch; None if everything matches."""
        if served.version != version.version:
            return OldVersionServed(served=served.version, evidence="statement")
        if compared.wrong is not None:
            return compared.wrong
        if served.digest != version.digest or not self._is_near(difference):
            return await self._old_version(version, served) or WeightsDiffer(
                expected_digest=version.digest,
                found_digest=served.digest,
                max_abs_difference=difference.most,
                tolerance=self._tolerance,
                position=difference.position,
            )
        if compared.changed >= CHANGED and served.logprobs and served.logprobs == self._answer:
            return OldVersionServed(served=self.version, evidence="unchanged answer")
        return None

    def _is_near(self, difference: ProbeDifference) -> bool:
        found = difference.most if is_exact(self._config) else difference.mean
        return found <= self._tolerance

    def _compare_tensors(self, version: PolicyVersion, served: ServedWeights) -> "Compared":
        """Compare tensors. Raises GeneratorError if the version's files are not as recorded."""
        # These import torch, which only processes with an engine need.
        from coevolve.delivery.tensors import Compared, TensorComparison
        from coevolve.weights.models import Base
        from coevolve.weights.published import read_published

        if not served.rows:
            return Compared(rows=0, changed=0.0)
        if self._tensors is None:
            engine = self._config.rollout.engine
            self._tensors = TensorComparison(
                Base(model_folder(self._config.policy.model)),
                engine.dtype,
            )
        return self._tensors.compare(version, read_published(version, self._files.folder), served)

    async def _file_fault(self, version: PolicyVersion) -> Reason | None:
        """Return the fault in the version's files; None if they are correct or missing."""
        try:
            digest = await asyncio.to_thread(
                version_digest, self._files.folder / version.path, version.format
            )
        except OSError:
            return None
        if digest == version.digest:
            return None
        async for earlier in self._earlier_versions(version):
            if earlier.digest == digest:
                return OldVersionServed(served=earlier.version, evidence="digest")
        return WeightsDiffer(
            expected_digest=version.digest,
            found_digest=digest,
            max_abs_difference=0.0,
            tolerance=self._tolerance,
            position=0,
        )

    async def _old_version(
        self, version: PolicyVersion, served: ServedWeights
    ) -> OldVersionServed | None:
        """Return the earlier version that the engine serves, or None."""
        found: OldVersionServed | None = None
        async for earlier in self._earlier_versions(version):
            if earlier.digest == served.digest != version.digest:
                found = OldVersionServed(served=earlier.version, evidence="digest")
            elif earlier.probe.token_ids == version.probe.token_ids and (
                self._is_near(probe_difference(earlier, served.logprobs))
            ):
                found = OldVersionServed(served=earlier.version, evidence="logprobs")
        return found

    async def _earlier_versions(self, version: PolicyVersion) -> AsyncIterator[PolicyVersion]:
        async for earlier in all_of(self._reader, PolicyVersion):
            if earlier.version < version.version:
                yield earlier

    async def _record_alarm(self, version: PolicyVersion, reason: Reason) -> DeliveryError:
        alarm = WeightSyncAlarm(engine=self._name, version=version.version, reason=reason)
        await self._append([alarm])
        return DeliveryError(fault(alarm))
