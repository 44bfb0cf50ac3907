"""The probe: tokens whose logprobs by learner and engine are compared."""

from typing import NamedTuple

import numpy as np

from protocols.config import RunConfig
from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion

PROBE_TOKENS = 32

FLOAT32_TOLERANCE = 1e-3
"""Nats. Learner and engine differ only in the order of their sums, which changes a logprob by some
1e-6, and by 1e-5 with a merged adapter. A training step changes it by much more."""

HALF_TOLERANCE = 0.5
"""Nats, on average over the probe, if either computes in 16 bits. A bfloat16 has 8 significant
bits, so logits of about 8 are off by up to 0.03 each, and a router of experts may choose another
expert: single tokens of correct engines were off by up to 0.9. The comparison of tensors detects
smaller changes.
"""


def probe_tokens(seed: int, vocabulary: int) -> tuple[int, ...]:
    """Return the token ids of a run's probe; constant in a run, each below ``vocabulary``."""
    return tuple(np.random.default_rng(seed).integers(vocabulary, size=PROBE_TOKENS).tolist())


def tolerance_of(config: RunConfig) -> float:
    """Return the maximum difference, in nats, between engine and learner on the probe.

    It applies to each token if both compute in float32, otherwise to the average.
    """
    if config.delivery.tolerance:
        return config.delivery.tolerance
    return FLOAT32_TOLERANCE if is_exact(config) else HALF_TOLERANCE


def is_exact(config: RunConfig) -> bool:
    """Return whether both learner and engine compute in float32."""
    return config.policy.precision == "fp32" and config.rollout.engine.dtype == "float32"


class ProbeDifference(NamedTuple):
    """Difference between the version's probe and an engine's, in nats; NaN if either has a NaN."""

    most: float
    mean: float
    position: int
    """Token with the largest difference, counted from 0; 0 without a probe."""


def probe_difference(version: PolicyVersion, logprobs: bytes) -> ProbeDifference:
    """Compare an engine's logprobs with the version's.

    Raises GeneratorError if the engine scored another number of tokens.
    """
    expected = np.frombuffer(version.probe.logprobs, dtype=np.float32)
    found = np.frombuffer(logprobs, dtype=np.float32)
    if found.size != expected.size:
        raise GeneratorError(
            f"the probe of version {version.version} needs {expected.size} logprobs, the engine "
            f"returned {found.size}"
        )
    if not expected.size:
        return ProbeDifference(0.0, 0.0, 0)
    differences = np.abs(expected.astype(np.float64) - found)
    worst = int(differences.argmax())
    return ProbeDifference(float(differences[worst]), float(differences.mean()), worst + 1)
