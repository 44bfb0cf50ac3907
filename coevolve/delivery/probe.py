"""Tokens that learner and engine give logprobs to, so that the two can be compared."""

from typing import NamedTuple

import numpy as np

from protocols.config import RunConfig
from protocols.errors import GeneratorError
from protocols.learning import PolicyVersion

PROBE_TOKENS = 32

FLOAT32_TOLERANCE = 1e-3
"""Nats. Learner and engine differ in the order of their sums alone, which moves a logprob by some
1e-6, and by 1e-5 where an adapter is merged; a step of training moves it by much more."""

HALF_TOLERANCE = 0.5
"""Nats, on average over the probe, where either computes in 16 bits. A bfloat16 holds 8 significant
bits, so logits of about 8 are off by up to 0.03 each, and a router of experts may choose another:
single tokens of right engines were off by up to 0.9. What changes less is for the comparison of
tensors to find.
"""


def probe_tokens(seed: int, vocabulary: int) -> tuple[int, ...]:
    """Return the token ids of a run's probe: the same all run, each below ``vocabulary``."""
    return tuple(np.random.default_rng(seed).integers(vocabulary, size=PROBE_TOKENS).tolist())


def tolerance_of(config: RunConfig) -> float:
    """Return by how many nats an engine may differ from the learner on the probe.

    On each of its tokens where both compute in float32, otherwise on average.
    """
    if config.delivery.tolerance:
        return config.delivery.tolerance
    return FLOAT32_TOLERANCE if is_exact(config) else HALF_TOLERANCE


def is_exact(config: RunConfig) -> bool:
    """Return whether both learner and engine compute in float32."""
    return config.policy.precision == "fp32" and config.rollout.engine.dtype == "float32"


class ProbeDifference(NamedTuple):
    """Between the version's probe and an engine's, in nats; no number where either is none."""

    most: float
    mean: float
    position: int
    """Token with the largest difference, counted from 0; 0 without a probe."""


def probe_difference(version: PolicyVersion, logprobs: bytes) -> ProbeDifference:
    """Compare an engine's logprobs with the version's.

    Raises GeneratorError where the engine scored other tokens.
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
