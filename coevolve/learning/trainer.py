"""Takes optimizer steps: the weights, the optimizer and the references kept for replay.

Everything that a step does is a function of the state before it, its batch and the run's config:
the learning rate and the replayed references depend on (seed, step) alone, dropout is off, and the
order of every sum is fixed. So the same batches make the same weights, bit by bit, on one machine
with one version of torch; a checkpoint holds no random state beyond seed and step.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch

from coevolve.delivery import probe_tokens
from coevolve.learning.batch import Batch, Reference, ReferenceRow, Row, SampledRow, sampled_rows
from coevolve.learning.objective import (
    clipped_losses,
    imitation_losses,
    importance_weights,
    is_clipped,
    kl_losses,
)
from coevolve.learning.policy import Policy, padded
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import LearnerError
from protocols.learning import Probe

BETAS = (0.9, 0.98)
"""AdamW's decay rates; the shorter memory of squares suits gradients that change with the data."""

Totals = defaultdict[str, float]
"""Sums over the tokens of a step."""

STATE_FILE = "trainer_state.json"
OPTIMIZER_FILE = "optimizer.pt"


class TrainerState(msgspec.Struct, frozen=True, kw_only=True):
    """`trainer_state.json`: what a checkpoint holds beside weights and optimizer."""

    step: int
    seed: int
    learning_rate: float
    """Of the step that was taken last."""

    replay: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """(token ids, mask) of the references kept for replay, oldest first."""


class Trainer:
    """A policy and what it takes to improve it by one batch."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        weights: Path | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        """Load version 0 from ``weights`` or ``base``, or go on from ``checkpoint``."""
        learner = config.learner
        self._config = config
        self._policy = Policy(
            config.policy,
            base,
            weights=checkpoint or weights,
            seed=config.seed,
            threads=learner.threads,
            with_reference=learner.kl_coefficient > 0,
        )
        self._parameters = self._policy.parameters()
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=learner.learning_rate, betas=BETAS, weight_decay=0.0
        )
        self._replay: deque[Reference] = deque(maxlen=learner.replay_size)
        self._step = 0
        self._cpu_s = 0.0
        if checkpoint is not None:
            self._restore(checkpoint)

    @property
    def step(self) -> int:
        """Return the step that was taken last: the version of the weights."""
        return self._step

    def cpu_s(self) -> float:
        """Return the CPU seconds spent inside the model so far."""
        return self._cpu_s

    def take_step(self, batch: Batch) -> dict[str, float]:
        """Improve the policy by one optimizer step and return its metrics.

        A batch that teaches nothing leaves the weights as they are; it is a step all the same.

        Raises:
            LearnerError: The batch is not the next one, or loss or gradient are not finite.
        """
        if batch.step != self._step + 1:
            raise LearnerError(f"after step {self._step} comes no step {batch.step}")
        learner = self._config.learner
        started_s = self._clock_s()
        rows = self._rows(batch)
        self._optimizer.zero_grad()
        totals = Totals(float)
        for pack in self._policy.micro_batches(rows):
            self._accumulate(pack, totals)
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, learner.max_grad_norm))
        names = ("policy_loss", "imitation_loss", "kl_loss")
        policy, imitation, kl = (totals[name] / self._normalizer() for name in names)
        loss = policy + imitation + kl
        if not (math.isfinite(norm) and math.isfinite(loss)):
            groups = ", ".join(group.record.group_id for group in batch.groups)
            raise LearnerError(
                f"step {batch.step}: loss {loss} and gradient norm {norm} need to be finite; "
                f"nothing was published; the batch's groups are {groups}; "
                "start a new run with a lower learner.learning_rate"
            )
        rate = self._learning_rate(batch.step)
        if rows:
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
        self._step = batch.step
        self._cpu_s += self._clock_s() - started_s
        return _token_means(totals) | {
            "actor/pg_loss": policy,
            "actor/imitation_loss": imitation,
            "actor/kl_loss": kl,
            "actor/grad_norm": norm,
            "actor/lr": rate,
            "perf/trained_tokens": float(sum(len(row.token_ids) for row in rows)),
        }

    @torch.no_grad()
    def probe(self) -> Probe:
        """Return the run's probe, with what the present weights give to its tokens."""
        started_s = self._clock_s()
        token_ids = probe_tokens(self._config.seed, self._policy.vocabulary)
        ids_1_T = torch.tensor([token_ids])
        mask_1_T = torch.ones_like(ids_1_T, dtype=torch.bool)
        mask_1_T[:, 0] = False
        logprobs_N, _ = self._policy.logprobs(ids_1_T, mask_1_T, temperature=1.0)
        self._cpu_s += self._clock_s() - started_s
        logprobs: list[float] = logprobs_N.tolist()
        return Probe(token_ids=columns.int32(token_ids), logprobs=columns.float32(logprobs))

    def save_weights(self, folder: Path) -> None:
        """Write the weights with their config into ``folder``."""
        self._policy.save(folder)

    def save(self, folder: Path) -> None:
        """Write all that ``checkpoint`` needs into ``folder``."""
        self._policy.save(folder)
        torch.save(self._optimizer.state_dict(), folder / OPTIMIZER_FILE)
        state = TrainerState(
            step=self._step,
            seed=self._config.seed,
            learning_rate=self._learning_rate(self._step),
            replay=tuple((each.token_ids, each.mask) for each in self._replay),
        )
        (folder / STATE_FILE).write_bytes(msgspec.json.encode(state))

    def _restore(self, folder: Path) -> None:
        state = msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=TrainerState)
        self._optimizer.load_state_dict(torch.load(folder / OPTIMIZER_FILE, weights_only=True))
        self._step = state.step
        self._replay.extend(Reference(token_ids=ids, mask=mask) for ids, mask in state.replay)

    def _rows(self, batch: Batch) -> list[Row]:
        """Return what the step learns from, and remember the batch's references."""
        config = self._config.learner
        rows: list[Row] = []
        for group in batch.groups:
            if group.record.use == "policy_gradient":
                rows.extend(sampled_rows(group, config))
            elif group.reference is not None:
                rows.append(_imitated(group.reference, config.imitation_weight))
                self._replay.append(group.reference)
        rng = np.random.default_rng([self._config.seed, batch.step])
        count = min(config.replay_per_step, len(self._replay))
        drawn = rng.choice(len(self._replay), size=count, replace=False) if count else ()
        rows.extend(_imitated(self._replay[int(index)], config.replay_weight) for index in drawn)
        return rows

    def _accumulate(self, pack: Sequence[Row], totals: Totals) -> None:
        """Add the gradient of ``pack`` to the parameters, and its sums to ``totals``."""
        config = self._config.learner
        temperature = self._config.rollout.temperature
        ids_B_T, mask_B_T = padded(pack)
        logprobs_N, entropies_N = self._policy.logprobs(ids_B_T, mask_B_T, temperature=temperature)
        sampler_N, factors_N, is_sampled_N = _columns(pack)

        imitation = imitation_losses(logprobs_N[~is_sampled_N], factors_N[~is_sampled_N]).sum()
        policy_N = logprobs_N[is_sampled_N]
        start_N = policy_N.detach()
        sampler_N, advantages_N = sampler_N[is_sampled_N], factors_N[is_sampled_N]
        bounds = {"low": config.clip_low, "high": config.clip_high}
        weights_N = importance_weights(start_N, sampler_N, cap=config.importance_cap)
        policy = (weights_N * clipped_losses(policy_N, start_N, advantages_N, **bounds)).sum()
        kl = torch.zeros(())
        if config.kl_coefficient > 0:
            reference_N = self._policy.reference_logprobs(
                ids_B_T, mask_B_T, temperature=temperature
            )
            kl = config.kl_coefficient * kl_losses(policy_N, reference_N[is_sampled_N]).sum()
        ((policy + imitation + kl) / self._normalizer()).backward()

        totals["policy_loss"] += float(policy.detach())
        totals["imitation_loss"] += float(imitation.detach())
        totals["kl_loss"] += float(kl.detach())
        totals["advantage"] += float(advantages_N.sum())
        totals["entropy"] += float(entropies_N[is_sampled_N].sum())
        totals["clipped"] += int(is_clipped(policy_N, start_N, advantages_N, **bounds).sum())
        _compare(start_N, sampler_N, config.importance_cap, totals)

    def _normalizer(self) -> float:
        """Return what token losses are divided by: the tokens expected of a step's rollouts."""
        return float(
            self._config.learner.groups_per_step
            * self._config.rollout.group_size
            * self._config.learner.loss_normalizer_tokens
        )

    def _learning_rate(self, step: int) -> float:
        """Return the rate of ``step``: linear up to the last warm-up step, then constant."""
        warmup = self._config.learner.warmup_steps
        return self._config.learner.learning_rate * (min(1.0, step / warmup) if warmup else 1.0)

    def _clock_s(self) -> float:
        """Return CPU time: the thread's own, or all threads' where a step uses several."""
        return time.thread_time() if self._config.learner.threads == 1 else time.process_time()


def _compare(trainer_N: torch.Tensor, sampler_N: torch.Tensor, cap: float, totals: Totals) -> None:
    """Add to ``totals`` how far the trainer's probabilities are from the sampler's."""
    ratios_N = (trainer_N - sampler_N).exp()
    totals["sampled"] += trainer_N.numel()
    totals["sampler_kl"] += float((sampler_N - trainer_N).sum())
    totals["probs_diff"] += float((trainer_N.exp() - sampler_N.exp()).abs().sum())
    totals["importance"] += float(ratios_N.clamp(max=cap).sum())
    totals["truncated"] += int((ratios_N > cap).sum())


def _token_means(totals: Totals) -> dict[str, float]:
    """Return what verl reports per token; nothing where no rollout was trained on."""
    tokens = totals["sampled"]
    if not tokens:
        return {}
    return {
        "actor/entropy": totals["entropy"] / tokens,
        "actor/ppo_kl": totals["sampler_kl"] / tokens,
        "actor/pg_clipfrac": totals["clipped"] / tokens,
        "critic/advantages/mean": totals["advantage"] / tokens,
        "training/rollout_probs_diff_mean": totals["probs_diff"] / tokens,
        "rollout_corr/rollout_is_mean": totals["importance"] / tokens,
        "rollout_corr/rollout_is_ratio_fraction_high": totals["truncated"] / tokens,
    }


def _imitated(reference: Reference, weight: float) -> ReferenceRow:
    return ReferenceRow(token_ids=reference.token_ids, mask=reference.mask, weight=weight)


def _columns(pack: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (sampler_logprobs_N, factors_N, is_sampled_N), in the order of the policy's tokens.

    A factor is the advantage of a sampled token, the weight of an imitated one.
    """
    sampler: list[float] = []
    factors: list[float] = []
    is_sampled: list[bool] = []
    for row in pack:
        chosen = [position for position in range(1, len(row.mask)) if row.mask[position]]
        match row:
            case SampledRow(sampler_logprobs=logprobs, advantage=factor):
                sampler.extend(logprobs[position] for position in chosen)
            case ReferenceRow(weight=factor):
                sampler.extend(0.0 for _ in chosen)
        factors.extend(factor for _ in chosen)
        is_sampled.extend(isinstance(row, SampledRow) for _ in chosen)
    return (
        torch.tensor(sampler),
        torch.tensor(factors),
        torch.tensor(is_sampled, dtype=torch.bool),
    )
