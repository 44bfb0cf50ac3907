"""Detects disagreement between learner and sampler on the tokens of real rollouts.

The comparison uses tokens that the learner's current version sampled, over keys and values that
this version computed. Learner and engine must give them the same logprobs, except for rounding. A
step measures their mean difference. A small one may be chance, so the evidence is accumulated over
versions.

The sum is an e-detector (Shin, Ramdas, Rinaldo 2022, arXiv 2203.03532) of the CUSUM kind. Each step
first raises it to 1 if it is below, and then multiplies it by 1 + b (x - t). Here x is the step's
mean difference in nats, at most 1, and t is the tolerance. As long as x is at most t on average,
whatever its distribution, the mean time between alarms is at least `STEPS_TO_FALSE_ALARM` steps.
"""

from coevolve.delivery.probe import is_exact
from protocols.config import RunConfig
from protocols.learning import SamplerDiffers

FLOAT32_TOLERANCE = 1e-4
"""Nats, on average; at most 1e-5 was measured for single tokens."""

HALF_TOLERANCE = 0.05
"""Nats, on average, if either computes in 16 bits; 0.002 to 0.02 was measured."""

STEPS_TO_FALSE_ALARM = 1e6

ON_POLICY_TOKENS = "rollout_corr/on_policy_tokens"
ON_POLICY_DIFFERENCE = "rollout_corr/on_policy_logp_difference"
"""Metrics of a step: the number of tokens that the version before it sampled, over keys and values
of its own, and the mean difference in nats between learner and engine on them."""


def tolerance_of(config: RunConfig) -> float:
    """Return the maximum mean difference in nats between learner and engine on sampled tokens."""
    if config.delivery.sampler_tolerance:
        return config.delivery.sampler_tolerance
    return FLOAT32_TOLERANCE if is_exact(config) else HALF_TOLERANCE


class SamplerWatch:
    """The accumulated evidence against one run's sampler."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._bet = 0.5 / tolerance
        self._evidence = 1.0
        self._tokens = 0

    def add(self, mean_difference: float, tokens: int) -> SamplerDiffers | None:
        """Add a step's ``tokens`` (at least one); return the fault if the evidence is sufficient.

        ``mean_difference`` is their mean difference in nats; NaN counts as the maximum.
        """
        self._tokens += tokens
        found = min(mean_difference, 1.0) if mean_difference >= 0 else 1.0
        self._evidence = max(self._evidence, 1.0) * (1.0 + self._bet * (found - self._tolerance))
        if self._evidence < STEPS_TO_FALSE_ALARM:
            return None
        return SamplerDiffers(
            mean_abs_difference=mean_difference, tolerance=self._tolerance, tokens=self._tokens
        )
