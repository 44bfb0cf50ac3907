"""Watches whether the learner agrees with the sampler on what real rollouts hold.

Of the tokens that the learner's present version sampled, over keys and values of its own, learner
and engine have to give the same logprobs, but for rounding. A step shows their mean difference; a
small one may be chance, so evidence is added up over versions.

The sum is an e-detector (Shin, Ramdas, Rinaldo 2022, arXiv 2203.03532), of the CUSUM kind: each
step multiplies it with 1 + b (x - t), where x is the step's mean difference in nats, at most 1, and
t what is allowed; before, it is raised to 1 where it is below. As long as x is at most t on
average, whatever its distribution, alarms are `STEPS_TO_FALSE_ALARM` steps apart or more, on
average.
"""

from coevolve.delivery.probe import is_exact
from protocols.config import RunConfig
from protocols.learning import SamplerDiffers

FLOAT32_TOLERANCE = 1e-4
"""Nats, on average; at most 1e-5 was seen of single tokens."""

HALF_TOLERANCE = 0.05
"""Nats, on average, where either computes in 16 bits; 0.002 to 0.02 was seen."""

STEPS_TO_FALSE_ALARM = 1e6

ON_POLICY_TOKENS = "rollout_corr/on_policy_tokens"
ON_POLICY_DIFFERENCE = "rollout_corr/on_policy_logp_difference"
"""Metrics of a step: tokens that the version before it sampled, over keys and values of its own,
and by how many nats learner and engine differ on one of them, on average."""


def tolerance_of(config: RunConfig) -> float:
    """Return by how many nats learner and engine may differ on a sampled token, on average."""
    if config.delivery.sampler_tolerance:
        return config.delivery.sampler_tolerance
    return FLOAT32_TOLERANCE if is_exact(config) else HALF_TOLERANCE


class SamplerWatch:
    """The evidence against one run's sampler."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._bet = 0.5 / tolerance
        self._evidence = 1.0
        self._tokens = 0

    def add(self, mean_difference: float, tokens: int) -> SamplerDiffers | None:
        """Take in a step's ``tokens``, one at least; return what is wrong, where that is clear.

        ``mean_difference`` is theirs in nats; no number counts as the most.
        """
        self._tokens += tokens
        found = min(mean_difference, 1.0) if mean_difference >= 0 else 1.0
        self._evidence = max(self._evidence, 1.0) * (1.0 + self._bet * (found - self._tolerance))
        if self._evidence < STEPS_TO_FALSE_ALARM:
            return None
        return SamplerDiffers(
            mean_abs_difference=mean_difference, tolerance=self._tolerance, tokens=self._tokens
        )
