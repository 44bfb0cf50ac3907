"""Metrics of a step's updates, by the names that verl and TRL use.

Letters: N tokens that the policy wrote, R rollouts.

- ``actor/*``, ``critic/*``: verl's, means over rollouts' tokens; ``rewards/*``: TRL's, of pairs.
- ``training/rollout_probs_diff_*``: absolute difference between the trainer's and the engine's
  probability of the sampled tokens (verl).
- ``rollout_corr/*``: the importance weights before truncation, and how much the two policies
  differ: ``kl`` is KL(engine || trainer) per token, ``k3_kl`` its estimate that is never negative
  (verl; its ``chi2`` and rejection statistics are left out). ``rollout_is_mean`` and the similar
  ones describe the truncated weights that multiply the loss, as in verl.
- ``actor/kl_from_start``: divergence per token from the run's initial model, by the k3 estimate, in
  the steps that measure it.
- ``sampling/*``: TRL's. Its importance ratios are also truncated.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch

from coevolve.delivery.sampler import ON_POLICY_DIFFERENCE, ON_POLICY_TOKENS
from coevolve.learning.losses import importance
from protocols.objectives import ImportanceLevel

LOSSES = ("pg_loss", "imitation_loss", "kl_loss", "preference_loss")
"""Losses that every step reports; others are reported where an objective has them."""


def _nothing() -> tuple[float, int]:
    """Return the start of a mean; the metrics of a rank are pickled, and no lambda can be."""
    return 0.0, 0


class StepMetrics:
    """Sums over the updates of one step."""

    def __init__(self, *, level: ImportanceLevel, cap: float) -> None:
        self._level: ImportanceLevel = level
        self._cap = cap
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._losses: defaultdict[str, float] = defaultdict(float, dict.fromkeys(LOSSES, 0.0))
        self._means: defaultdict[str, tuple[float, int]] = defaultdict(_nothing)
        self._start: list[torch.Tensor] = []
        self._sampler: list[torch.Tensor] = []
        self._lengths: list[int] = []

    def add(self, **amounts: float) -> None:
        """Add amounts to the named sums."""
        for name, amount in amounts.items():
            self._sums[name] += amount

    def add_loss(self, label: str, loss: torch.Tensor) -> None:
        """Add a part of the loss ``label``."""
        self._losses[label] += float(loss.detach())

    def add_to_mean(self, name: str, values: torch.Tensor) -> None:
        """Count values for the metric ``name``, which is their mean."""
        self._count(name, float(values.detach().sum()), values.numel())

    def _count(self, name: str, amount: float, count: int) -> None:
        total, counted = self._means[name]
        self._means[name] = total + amount, counted + count

    def compare(
        self, start_N: torch.Tensor, sampler_N: torch.Tensor, lengths_R: Sequence[int]
    ) -> None:
        """Store the trainer's and the engine's logprobs of the tokens of these rollouts."""
        self._start.append(start_N.detach().cpu())
        self._sampler.append(sampler_N.cpu())
        self._lengths.extend(lengths_R)

    @staticmethod
    def merged(parts: "Sequence[StepMetrics]") -> "StepMetrics":
        """Return the combined metrics of ``parts`` (at least one) of one step."""
        total = StepMetrics(level=parts[0]._level, cap=parts[0]._cap)
        for part in parts:
            total.add(**part._sums)
            for label, loss in part._losses.items():
                total._losses[label] += loss
            for name, mean in part._means.items():
                total._count(name, *mean)
            total._start.extend(part._start)
            total._sampler.extend(part._sampler)
            total._lengths.extend(part._lengths)
        return total

    @property
    def sums(self) -> Mapping[str, float]:
        """Return all sums."""
        return self._sums

    @property
    def loss(self) -> float:
        """Return the sum of all losses so far; not finite if one of them is not."""
        return math.fsum(self._losses.values())

    def metrics(self, updates: int) -> dict[str, float]:
        """Return all metrics, with losses as means over ``updates``.

        Metrics without data in this step are omitted.
        """
        sums = self._sums
        found = {f"actor/{label}": loss / updates for label, loss in self._losses.items()}
        found |= {name: total / count for name, (total, count) in self._means.items() if count}
        if padded := sums["padded_tokens"]:
            found["perf/padding_share"] = 1.0 - sums["tokens"] / padded
        if on_policy := sums["on_policy"]:
            found |= {
                ON_POLICY_TOKENS: on_policy,
                ON_POLICY_DIFFERENCE: sums["on_policy_difference"] / on_policy,
            }
        if sampled := sums["sampled"]:
            found |= {
                "actor/entropy": sums["entropy"] / sampled,
            } | mismatch(
                torch.cat(self._start),
                torch.cat(self._sampler),
                self._lengths,
                level=self._level,
                cap=self._cap,
            )
        return found


def mismatch(
    start_N: torch.Tensor,
    sampler_N: torch.Tensor,
    lengths_R: Sequence[int],
    *,
    level: ImportanceLevel,
    cap: float,
) -> dict[str, float]:
    """Return how far the trainer's probabilities of sampled tokens are from the engine's.

    ``lengths_R`` holds the number of written tokens of each rollout; N is at least 1.
    """
    differences_N = start_N - sampler_N
    probs_N = (start_N.exp() - sampler_N.exp()).abs()
    ratios_N = importance.ratios(start_N, sampler_N, lengths_R, level=level)
    weights_N = ratios_N.clamp(max=cap)
    log_ppl, rollout_log_ppl = _mean(-start_N), _mean(-sampler_N)
    return {
        "actor/ppo_kl": _mean(-differences_N),
        "training/rollout_probs_diff_mean": _mean(probs_N),
        "training/rollout_probs_diff_max": float(probs_N.max()),
        "training/rollout_probs_diff_std": _std(probs_N),
        "rollout_corr/kl": _mean(-differences_N),
        "rollout_corr/k3_kl": _mean(differences_N.exp() - differences_N - 1.0),
        "rollout_corr/training_ppl": _exp(log_ppl),
        "rollout_corr/rollout_ppl": _exp(rollout_log_ppl),
        "rollout_corr/log_ppl_diff": rollout_log_ppl - log_ppl,
        "rollout_corr/rollout_is_mean": _mean(weights_N),
        "rollout_corr/rollout_is_std": _std(weights_N),
        "rollout_corr/rollout_is_min": float(weights_N.min()),
        "rollout_corr/rollout_is_max": float(weights_N.max()),
        "rollout_corr/rollout_is_ratio_fraction_high": _mean((ratios_N > cap).double()),
        "rollout_corr/rollout_is_ratio_fraction_low": _mean((ratios_N < 1.0 / cap).double()),
        "rollout_corr/rollout_is_eff_sample_size": _effective_share(weights_N),
        "sampling/sampling_logp_difference/mean": _mean(differences_N.abs()),
        "sampling/sampling_logp_difference/max": float(differences_N.abs().max()),
        "sampling/importance_sampling_ratio/min": float(weights_N.min()),
        "sampling/importance_sampling_ratio/mean": _mean(weights_N),
        "sampling/importance_sampling_ratio/max": float(weights_N.max()),
    }


def _mean(values_N: torch.Tensor) -> float:
    return float(values_N.double().mean())


def _std(values_N: torch.Tensor) -> float:
    return float(values_N.double().std(correction=0))


def _exp(value: float) -> float:
    """Return e to the power of ``value``, limited to the largest float."""
    return math.exp(min(value, 709.0))


def _effective_share(weights_N: torch.Tensor) -> float:
    """Return (sum w)^2 / (N sum w^2), in (0, 1]; it is 1 if all weights are equal."""
    weights_N = weights_N.double()
    squares = float((weights_N**2).sum())
    return float(weights_N.sum()) ** 2 / (weights_N.numel() * squares) if squares else 0.0
