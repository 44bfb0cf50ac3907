"""Proof that every engine serves the policy version that was published.

A version's record carries a `protocols.learning.Probe`: tokens, and the learner's logprobs of them
under the new weights. An engine that took the version over answers with the digest of the file that
it read and with its own logprobs, through the weights that sample. `ProvenEngine` compares the two
where the engine is; `coevolve.learning.publication` waits for the comparison where the version was
published.

Promises:

- Each version that an engine serves has a `Delivered` record of that engine, or a `DeliveryAlarm`:
  *the weights differ*, *an old version is served*, or *nothing was delivered* in time. A version
  that an engine never took up, because a newer one was there, needs no proof.
- After an alarm no further step is taken until the run is opened again (`--resume`), when every
  engine proves the newest version anew. It ends the run instead of pausing it: a failed process is
  what a terminal, a batch system and a supervisor of services notice, and nothing is lost by it.
- An engine that is slow, dies, or passes versions over raises no alarm within
  ``delivery.timeout_s``.

What is not covered: a few tokens may be sampled between the change of weights and the comparison,
which is a matter of milliseconds; their logprobs are those of the weights that made them. Where a
step moves no logprob by more than the tolerance, only the digest tells its version from the one
before.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import assert_never

import numpy as np

from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import whole_topic
from coevolve.learning.checkpoint import file_digest
from protocols.config import RunConfig, VllmEngine
from protocols.errors import DeliveryError, GeneratorError
from protocols.interfaces import Generator, Reader
from protocols.journal import Message
from protocols.learning import (
    Delivered,
    DeliveryAlarm,
    NothingDelivered,
    OldVersionServed,
    PolicyVersion,
    Served,
    WeightsDiffer,
)

PROBE_TOKENS = 32

FLOAT32_TOLERANCE = 1e-3
"""Nats. Learner and engine differ in the order of their sums alone, which moves a logprob by some
1e-6, and by 1e-5 where an adapter is merged; a step of training moves it by much more."""

HALF_TOLERANCE = 0.2
"""Nats, where either computes in 16 bits. A bfloat16 holds 8 significant bits, so logits of about 8
are off by up to 0.03 each; up to 0.086 was seen of the tiny policy on a CPU. Larger logits may need
more: see ``delivery/max_abs_logprob_difference`` of a run that is known to be right.
"""

Append = Callable[[Sequence[Message]], Awaitable[object]]
Reason = WeightsDiffer | OldVersionServed | NothingDelivered


def probe_tokens(seed: int, vocabulary: int) -> tuple[int, ...]:
    """Return the token ids of a run's probe: the same all run, each below ``vocabulary``."""
    return tuple(np.random.default_rng(seed).integers(vocabulary, size=PROBE_TOKENS).tolist())


def tolerance_of(config: RunConfig) -> float:
    """Return by how many nats an engine may differ from the learner on a token of the probe."""
    if config.delivery.tolerance:
        return config.delivery.tolerance
    engine = config.rollout.engine
    is_exact = config.policy.precision == "fp32" and not (
        isinstance(engine, VllmEngine) and engine.dtype != "float32"
    )
    return FLOAT32_TOLERANCE if is_exact else HALF_TOLERANCE


def rollout_engines(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the engines that a published version has to reach."""
    return tuple(f"rollout-{number}" for number in range(config.rollout.actors))


def sentence(alarm: DeliveryAlarm) -> str:
    """Return what is wrong and the remedy, for a person."""
    match alarm.reason:
        case WeightsDiffer() as found:
            said = _differing(alarm, found)
        case OldVersionServed(served=served, evidence=evidence):
            said = (
                f"by the {evidence} it serves version {served} instead. Check that the engine sees "
                "the run's folder as it is (a shared file system may show old files) and takes "
                "over what it loads"
            )
        case NothingDelivered(waited_s=waited_s, newest=newest):
            proven = f"the newest that it has proven is {newest}" if newest >= 0 else "it has none"
            said = (
                f"no proof came within {waited_s:.0f} s of publication, {proven}. See "
                f"logs/{alarm.engine}.jsonl; raise delivery.timeout_s where the engine takes "
                "longer than that to start or to load"
            )
        case _:
            assert_never(alarm.reason)
    return (
        f"version {alarm.version} has to be served by {alarm.engine}, and {said}. Training has "
        "stopped; go on with --resume"
    )


def _differing(alarm: DeliveryAlarm, found: WeightsDiffer) -> str:
    if found.found_digest != found.expected_digest:
        return (
            f"its weights file has SHA-256 {found.found_digest[:12]} where the record says "
            f"{found.expected_digest[:12]}: it was changed after it was published. Check the disk; "
            "the learner writes the newest version again when the run is resumed"
        )
    return (
        f"it gives token {found.position} of the probe a logprob that is off by "
        f"{found.max_abs_difference:.2g} nats (allowed: {found.tolerance:.2g}) although it read "
        "the right file: it converts or merges weights wrongly, or computes less exactly. Compare "
        "with rollout.engine.kind=transformers; raise delivery.tolerance only where the engine's "
        "precision explains so much"
    )


class ProvenEngine:
    """An engine whose every change of weights is compared with what was published."""

    def __init__(
        self,
        name: str,
        generator: Generator,
        *,
        reader: Reader,
        append: Append,
        run_dir: Path,
        config: RunConfig,
    ) -> None:
        """Stand in front of ``generator``, of the part ``name``.

        ``append`` writes to the journal without waiting for company.
        """
        self.generator = generator
        self.version = -1
        """Policy version that was proven last; -1 before any."""
        self._name = name
        self._reader = reader
        self._append = append
        self._run_dir = run_dir
        self._tolerance = tolerance_of(config)

    async def serve(self, version: PolicyVersion) -> Delivered:
        """Have the engine serve ``version``; return the proof, for the caller to record.

        Raises:
            DeliveryError: The engine serves something else; the alarm is on record.
            GeneratorError: The engine broke, or the version's folder is gone.
        """
        try:
            served = await self.generator.load(version)
        except GeneratorError:
            reason = await self._file_fault(version)
            if reason is None:
                raise
            raise await self._alarmed(version, reason) from None
        difference, position = _difference(version, served.logprobs)
        right = served.digest == version.digest and served.version == version.version
        if right and difference <= self._tolerance:
            self.version = version.version
            return Delivered(
                engine=self._name,
                version=version.version,
                digest=served.digest,
                max_abs_difference=difference,
                wall_s=served.wall_s,
                pause_s=served.pause_s,
                proven_ns=time.time_ns(),
            )
        reason = await self._old_version(version, served) or WeightsDiffer(
            expected_digest=version.digest,
            found_digest=served.digest,
            max_abs_difference=difference,
            tolerance=self._tolerance,
            position=position,
        )
        raise await self._alarmed(version, reason)

    async def record(self, proof: Delivered) -> None:
        """Write down a proof that has no other write to travel with."""
        await self._append([proof])

    async def _file_fault(self, version: PolicyVersion) -> Reason | None:
        """Return what is wrong with the version's file; None where it is right, or not there."""
        digest = await asyncio.to_thread(_weights_digest, self._run_dir / version.path)
        if digest in (None, version.digest):
            return None
        async for earlier in self._earlier(version):
            if earlier.digest == digest:
                return OldVersionServed(served=earlier.version, evidence="digest")
        return WeightsDiffer(
            expected_digest=version.digest,
            found_digest=digest,
            max_abs_difference=0.0,
            tolerance=self._tolerance,
            position=0,
        )

    async def _old_version(self, version: PolicyVersion, served: Served) -> OldVersionServed | None:
        """Return which earlier version the engine serves, None where it serves none of them."""
        if served.version < version.version:
            return OldVersionServed(served=served.version, evidence="statement")
        found: OldVersionServed | None = None
        async for earlier in self._earlier(version):
            if earlier.digest == served.digest != version.digest:
                found = OldVersionServed(served=earlier.version, evidence="digest")
            elif earlier.probe.token_ids == version.probe.token_ids and (
                _difference(earlier, served.logprobs)[0] <= self._tolerance
            ):
                found = OldVersionServed(served=earlier.version, evidence="logprobs")
        return found

    async def _earlier(self, version: PolicyVersion) -> AsyncIterator[PolicyVersion]:
        async for record in whole_topic(self._reader, topic_of(PolicyVersion)):
            earlier = decode_as(record, PolicyVersion)
            if earlier.version < version.version:
                yield earlier

    async def _alarmed(self, version: PolicyVersion, reason: Reason) -> DeliveryError:
        """Record the alarm and return it as an error."""
        alarm = DeliveryAlarm(engine=self._name, version=version.version, reason=reason)
        await self._append([alarm])
        return DeliveryError(sentence(alarm))


def _difference(version: PolicyVersion, logprobs: bytes) -> tuple[float, int]:
    """Return (largest difference in nats, its token) between the version's probe and an engine's.

    Not a number where either is not. Raises GeneratorError where the engine scored other tokens.
    """
    expected = np.frombuffer(version.probe.logprobs, dtype=np.float32)
    found = np.frombuffer(logprobs, dtype=np.float32)
    if found.size != expected.size:
        raise GeneratorError(
            f"the probe of version {version.version} needs {expected.size} logprobs, the engine "
            f"returned {found.size}"
        )
    if not expected.size:
        return 0.0, 0
    differences = np.abs(expected.astype(np.float64) - found)
    worst = int(differences.argmax())
    return float(differences[worst]), worst + 1


def _weights_digest(folder: Path) -> str | None:
    """Return the digest of the folder's one file of weights; None where there is none."""
    try:
        (weights,) = folder.glob("*.safetensors")
        return file_digest(weights)
    except (OSError, ValueError):
        return None
