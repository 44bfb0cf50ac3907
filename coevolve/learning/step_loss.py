"""The loss of one optimizer update and its gradient, micro-batch by micro-batch.

Letters: B rows of a micro-batch's tensors, T positions, N tokens that the policy wrote, R rollouts,
P pairs.

    loss = (rollouts' token losses + imitated tokens' losses + divergence) / divisor of tokens
         + (pairs' losses) / divisor of pairs

The parameters accumulate gradients in the order of the micro-batches, so the same rows give the
same bits.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from coevolve.learning.batch import PairRow, ReferenceRow, Row, SampledRow, conversations
from coevolve.learning.constraints import Constraints
from coevolve.learning.metrics import StepMetrics
from coevolve.learning.objectives import credit, divergence, dpo, imitation, importance
from coevolve.learning.objectives.aggregation import LossNormalizer
from coevolve.learning.objectives.surrogate import Surrogate
from coevolve.learning.policy import Policy, padded, written
from protocols.config import RunConfig

RowT = TypeVar("RowT", SampledRow, ReferenceRow, PairRow)


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """The policy's logprobs of the written tokens of some rows."""

    lengths: list[int]
    """R entries: number of written tokens of each sequence."""

    logprobs: torch.Tensor
    entropies: torch.Tensor
    reference: torch.Tensor | None
    """N entries each, sequence by sequence; ``reference`` is None if no row needs it."""

    def per_token(
        self, values_R: Sequence[float], dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Repeat the value of each sequence for each of its tokens."""
        pairs = zip(values_R, self.lengths, strict=True)
        values_N = [value for value, length in pairs for _ in range(length)]
        return torch.tensor(values_N, dtype=dtype, device=self.logprobs.device)

    def scales(self, normalizer: LossNormalizer) -> torch.Tensor:
        """Return the weight of each token's loss."""
        return self.per_token([normalizer.scale(length) for length in self.lengths])

    def reference_logprobs(self) -> torch.Tensor:
        """Return the reference's log-probabilities. Raises ValueError if there are none."""
        if self.reference is None:
            raise ValueError("the reference's log-probabilities were not computed")
        return self.reference


class StepLoss:
    """Accumulates the gradient of one update."""

    def __init__(
        self,
        policy: Policy,
        config: RunConfig,
        *,
        constraints: Constraints,
        surrogate: Surrogate | None,
        normalizer: LossNormalizer,
        step_metrics: StepMetrics,
        version: int,
    ) -> None:
        """Start an update; the gradients of the policy's parameters must be zero.

        Args:
            policy: The policy to train.
            config: The run's settings.
            constraints: Masks of the tokens that rollouts were allowed to write.
            surrogate: Loss of the rollouts; without it, every `SampledRow` is ignored.
            normalizer: Weights and divisors of the losses.
            step_metrics: Receives the metrics.
            version: The version at the start of the step.
        """
        self._policy = policy
        self._learner = config.learner
        self._temperature = config.rollout.temperature
        self._constraints = constraints
        self._surrogate = surrogate
        self._normalizer = normalizer
        self._metrics = step_metrics
        self._version = version

    def add(self, pack: Sequence[Row], *, compares: bool) -> None:
        """Add the gradient of one micro-batch to the parameters; without rows it is zero.

        ``compares`` says whether to compute the reference's logprobs; it must be the same on every
        rank. Rollouts are scored at the temperature of their sampling, other rows at 1, because SFT
        and DPO are defined on the model's own distribution. A micro-batch must therefore have rows
        of one kind.
        """
        kinds = {type(row) for row in pack}
        if len(kinds) > 1:
            raise ValueError(
                f"a micro-batch needs rows of one kind, found {sorted(map(str, kinds))}"
            )
        temperature = self._temperature if SampledRow in kinds else 1.0
        scores = self._scores(pack, temperature, compares=compares)
        terms: list[torch.Tensor] = []
        if (rollouts := _only(pack, SampledRow)) and self._surrogate:
            terms.append(self._rollout_loss(self._surrogate, rollouts, scores))
        if references := _only(pack, ReferenceRow):
            terms.append(self._reference_loss(references, scores))
        if pairs := _only(pack, PairRow):
            terms.append(self._pair_loss(pairs, scores))
        torch.stack(terms or [scores.logprobs.sum()]).sum().backward()

    def _scores(self, pack: Sequence[Row], temperature: float, *, compares: bool) -> _Scores:
        ids_B_T, mask_B_T = padded(pack)
        allowed_N_V = self._constraints.allowed(pack)
        logprobs_N, entropies_N = self._policy.logprobs(
            ids_B_T, mask_B_T, temperature=temperature, allowed_N_V=allowed_N_V
        )
        self._metrics.add(
            tokens=sum(len(side.token_ids) for row in pack for side in conversations(row)),
            padded_tokens=ids_B_T.numel() if pack else 0,
        )
        return _Scores(
            lengths=written(mask_B_T),
            logprobs=logprobs_N,
            entropies=entropies_N,
            reference=self._policy.reference_logprobs(
                ids_B_T, mask_B_T, temperature=temperature, allowed_N_V=allowed_N_V
            )
            if compares
            else None,
        )

    def _rollout_loss(
        self, surrogate: Surrogate, rows: Sequence[SampledRow], scores: _Scores
    ) -> torch.Tensor:
        """Return the policy gradient's loss, plus the divergence if it has a weight."""
        learner, lengths_R, logprobs_N = self._learner, scores.lengths, scores.logprobs
        start_N, sampler_N = _earlier_logprobs(rows, logprobs_N)
        advantages = [advantage for row in rows for advantage in row.advantages]
        advantages_N = torch.tensor(advantages, dtype=torch.float32, device=logprobs_N.device)
        scales_N = scores.scales(self._normalizer)
        ratios_N = importance.ratios(start_N, sampler_N, lengths_R, level=learner.importance)
        losses_N = surrogate.losses(logprobs_N, start_N, advantages_N, lengths_R)
        weighted_N = ratios_N.clamp(max=learner.importance_cap) * losses_N
        policy = (weighted_N * scales_N).sum() / self._normalizer.tokens
        self._metrics.compare(start_N, sampler_N, lengths_R)
        on_policy_N = self._on_policy(rows).to(logprobs_N.device)
        self._metrics.add(
            on_policy=int(on_policy_N.sum()),
            on_policy_difference=float((start_N - sampler_N)[on_policy_N].abs().sum()),
            policy_loss=float(policy.detach()),
            sampled=logprobs_N.numel(),
            advantage=float(advantages_N.sum()),
            entropy=float(scores.entropies.sum()),
            clipped=int(surrogate.is_clipped(logprobs_N, start_N, advantages_N, lengths_R).sum()),
        )
        if scores.reference is None:
            return policy
        losses_N = divergence.losses(logprobs_N, scores.reference)
        self._metrics.add(divergence=float(losses_N.detach().sum()), compared=losses_N.numel())
        return policy + self._divergence(losses_N, scales_N) if learner.kl_coefficient else policy

    def _on_policy(self, rows: Sequence[SampledRow]) -> torch.Tensor:
        """Return which tokens were sampled by the step's initial version: boolean, (N,)."""
        found = [
            bool(row.sampled_by) and row.sampled_by[position] == self._version
            for row in rows
            for position in credit.written_positions(row.mask)
        ]
        return torch.tensor(found, dtype=torch.bool)

    def _divergence(self, losses_N: torch.Tensor, scales_N: torch.Tensor) -> torch.Tensor:
        kl = self._learner.kl_coefficient * (losses_N * scales_N).sum() / self._normalizer.tokens
        self._metrics.add(kl_loss=float(kl.detach()))
        return kl

    def _reference_loss(self, rows: Sequence[ReferenceRow], scores: _Scores) -> torch.Tensor:
        weights_N = scores.per_token([row.weight for row in rows])
        losses_N = imitation.losses(scores.logprobs, weights_N)
        losses_N = losses_N * scores.scales(self._normalizer)
        imitated = losses_N.sum() / self._normalizer.tokens
        self._metrics.add(imitation_loss=float(imitated.detach()))
        return imitated

    def _pair_loss(self, rows: Sequence[PairRow], scores: _Scores) -> torch.Tensor:
        gains_N = scores.logprobs - scores.reference_logprobs()
        gains_R = torch.stack([part.sum() for part in torch.split(gains_N, scores.lengths)])
        chosen_P, rejected_P = gains_R[0::2], gains_R[1::2]
        beta_P = torch.tensor([row.beta for row in rows], device=gains_R.device)
        preference = dpo.losses(chosen_P, rejected_P, beta_P).sum() / self._normalizer.pairs
        self._metrics.add(
            preference_loss=float(preference.detach()),
            pairs=len(rows),
            chosen=float((beta_P * chosen_P.detach()).sum()),
            rejected=float((beta_P * rejected_P.detach()).sum()),
            right=int((chosen_P > rejected_P).sum()),
        )
        return preference


def _only(pack: Sequence[Row], kind: type[RowT]) -> list[RowT]:
    return [row for row in pack if isinstance(row, kind)]


def _earlier_logprobs(
    rows: Sequence[SampledRow], logprobs_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (start_N, sampler_N): the policy's and the engine's logprobs before this update."""
    sampler = [
        row.rollout_logprobs[position]
        for row in rows
        for position in credit.written_positions(row.mask)
    ]
    start = [logprob for row in rows for logprob in row.old_logprobs]
    sampler_N = torch.tensor(sampler, device=logprobs_N.device)
    return (
        torch.tensor(start, device=logprobs_N.device) if start else logprobs_N.detach(),
        sampler_N,
    )
