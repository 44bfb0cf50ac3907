"""The loss of one optimizer update and its gradient, micro-batch by micro-batch.

Letters: B rows of a micro-batch's tensors, T positions, N tokens that the policy wrote, R
sequences.

    loss = (losses of tokens + divergence) / divisor of tokens + (losses of rows) / divisor of rows

The parameters accumulate gradients in the order of the micro-batches, so the same rows give the
same bits.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coevolve.learning.constraints import Constraints
from coevolve.learning.losses import credit, divergence, importance
from coevolve.learning.losses.aggregation import LossNormalizer
from coevolve.learning.metrics import StepMetrics
from coevolve.learning.policy import Policy, padded
from coevolve.learning.rows import Conversation, Row, Scored, Stream, sides
from coevolve.models.allocator import trim
from protocols.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class _Forward:
    """What the models say about the written tokens of some rows, sequence by sequence."""

    lengths: list[int]
    """R entries: number of written tokens of each sequence (`Row.sizes`)."""

    logprobs: torch.Tensor
    entropies: torch.Tensor
    initial: torch.Tensor | None
    """N entries each; ``initial`` is None if no row needs the initial model."""

    def initial_logprobs(self) -> torch.Tensor:
        """Return the initial model's logprobs. Raises ValueError if there are none."""
        if self.initial is None:
            raise ValueError("the initial model's log-probabilities were not computed")
        return self.initial


class StepLoss:
    """Accumulates the gradient of one update."""

    def __init__(
        self,
        policy: Policy,
        config: RunConfig,
        *,
        constraints: Constraints,
        normalizer: LossNormalizer,
        step_metrics: StepMetrics,
        version: int,
    ) -> None:
        """Start an update; the gradients of the policy's parameters must be zero.

        Args:
            policy: The policy to train.
            config: The run's settings.
            constraints: Masks of the tokens that rollouts were allowed to write.
            normalizer: Weights and divisors of the losses.
            step_metrics: Receives the metrics.
            version: The version at the start of the step.
        """
        self._policy = policy
        self._learner = config.learner
        self._temperature = config.rollout.temperature
        self._constraints = constraints
        self._normalizer = normalizer
        self._metrics = step_metrics
        self._version = version

    def add(self, pack: Sequence[Row], *, compares: bool) -> None:
        """Add the gradient of one micro-batch to the parameters; without rows it is zero.

        ``compares`` says whether to compute the initial model's logprobs; it must be the same on
        every rank. Samples are scored at the temperature of their sampling, other rows at 1,
        because fine-tuning and preferences are defined on the model's own distribution. A
        micro-batch must therefore have rows of one kind (`Row.is_like`).
        """
        if not all(row.is_like(pack[0]) for row in pack):
            raise ValueError("a micro-batch needs rows of one kind, found several")
        is_sampled = bool(pack) and pack[0].is_sampled
        forward = self._forward(pack, self._temperature if is_sampled else 1.0, compares=compares)
        if not pack:
            forward.logprobs.sum().backward()
            return
        scored = self._scored(pack, forward, is_sampled=is_sampled)
        scales_N = self._scales(pack, forward)
        terms = [
            self._stream_loss([row.streams[number] for row in pack], scored, forward, scales_N)
            for number in range(len(pack[0].streams))
        ]
        if is_sampled:
            terms += self._sample_terms(pack, scored, forward, scales_N)
        torch.stack(terms).sum().backward()
        if self._policy.device.type == "cpu":
            trim()

    def _forward(self, pack: Sequence[Row], temperature: float, *, compares: bool) -> _Forward:
        ids_B_T, mask_B_T = padded(pack)
        allowed_N_V = self._constraints.allowed(pack)
        logprobs_N, entropies_N = self._policy.logprobs(
            ids_B_T, mask_B_T, temperature=temperature, allowed_N_V=allowed_N_V
        )
        self._metrics.add(
            tokens=sum(len(side.token_ids) for side in sides(pack)),
            padded_tokens=ids_B_T.numel() if pack else 0,
        )
        return _Forward(
            lengths=[length for row in pack for length in row.lengths],
            logprobs=logprobs_N,
            entropies=entropies_N,
            initial=self._policy.reference_logprobs(
                ids_B_T, mask_B_T, temperature=temperature, allowed_N_V=allowed_N_V
            )
            if compares
            else None,
        )

    def _scored(self, pack: Sequence[Row], forward: _Forward, *, is_sampled: bool) -> Scored:
        """Return the tokens as components read them, without targets."""
        logprobs_N = forward.logprobs
        start_N = logprobs_N.detach()
        importance_N = torch.ones_like(start_N)
        if is_sampled:
            start_N, sampler_N = _earlier_logprobs(sides(pack), logprobs_N)
            level, cap = self._learner.importance, self._learner.importance_cap
            ratios_N = importance.ratios(start_N, sampler_N, forward.lengths, level=level)
            importance_N = ratios_N.clamp(max=cap)
            self._metrics.compare(start_N, sampler_N, forward.lengths)
            self._measure_sampling(sides(pack), start_N - sampler_N)
        return Scored(
            logprobs=logprobs_N,
            start=start_N,
            importance=importance_N,
            targets=logprobs_N.new_empty(0),
            lengths=forward.lengths,
        )

    def _stream_loss(
        self,
        streams: Sequence[Stream],
        scored: Scored,
        forward: _Forward,
        scales_N: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss of one stream of each row; all have the same component."""
        component = streams[0].component
        scored = dataclasses.replace(scored, targets=_targets(streams, forward))
        losses = component.losses(scored)
        if component.is_per_row:
            loss = losses.sum() / self._normalizer.rows
        else:
            if any(each.weights for each in streams):
                losses = losses * _column([each.weights for each in streams], losses.device)
            loss = (losses * scales_N).sum() / self._normalizer.tokens
        self._metrics.add_loss(component.label, loss)
        with torch.no_grad():
            for name, values in component.measures(scored).items():
                self._metrics.add_to_mean(name, values)
        return loss

    def _sample_terms(
        self, pack: Sequence[Row], scored: Scored, forward: _Forward, scales_N: torch.Tensor
    ) -> list[torch.Tensor]:
        """Return the divergence from the initial model, if it has a weight."""
        self._metrics.add(sampled=scored.logprobs.numel(), entropy=float(forward.entropies.sum()))
        if forward.initial is None:
            return []
        losses_N = divergence.losses(scored.logprobs, forward.initial)
        self._metrics.add_to_mean("actor/kl_from_start", losses_N)
        coefficient = self._learner.kl_coefficient
        if not coefficient:
            return []
        loss = coefficient * (losses_N * scales_N).sum() / self._normalizer.tokens
        self._metrics.add_loss("kl_loss", loss)
        return [loss]

    def _measure_sampling(
        self, sampled: Sequence[Conversation], differences_N: torch.Tensor
    ) -> None:
        """Measure how far the sampler's logprobs are off where it had the step's first version."""
        found = [
            bool(side.sampled_by) and side.sampled_by[position] == self._version
            for side in sampled
            for position in credit.written_positions(side.mask)
        ]
        on_policy_N = torch.tensor(found, dtype=torch.bool).to(differences_N.device)
        self._metrics.add(
            on_policy=int(on_policy_N.sum()),
            on_policy_difference=float(differences_N[on_policy_N].abs().sum()),
        )

    def _scales(self, pack: Sequence[Row], forward: _Forward) -> torch.Tensor:
        """Return the normalizer's weight of each token's loss."""
        scales = [
            [self._normalizer.scale(side.written_by_rollout)] * side.written for side in sides(pack)
        ]
        return _column(scales, forward.logprobs.device)


def _column(parts: Sequence[Sequence[float]], device: torch.device) -> torch.Tensor:
    """Return the values of all parts, one after another."""
    values = [value for part in parts for value in part]
    return torch.tensor(values, dtype=torch.float32, device=device)


def _targets(streams: Sequence[Stream], forward: _Forward) -> torch.Tensor:
    if streams[0].targets == "initial":
        return forward.initial_logprobs()
    given = [each.targets for each in streams if not isinstance(each.targets, str)]
    return _column(given, forward.logprobs.device)


def _earlier_logprobs(
    sampled: Sequence[Conversation], logprobs_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (start_N, sampler_N): the policy's and the engine's logprobs before this update."""
    sampler = [
        side.rollout_logprobs[position]
        for side in sampled
        for position in credit.written_positions(side.mask)
    ]
    start = [logprob for side in sampled for logprob in side.old_logprobs]
    sampler_N = torch.tensor(sampler, device=logprobs_N.device)
    return (
        torch.tensor(start, device=logprobs_N.device) if start else logprobs_N.detach(),
        sampler_N,
    )
