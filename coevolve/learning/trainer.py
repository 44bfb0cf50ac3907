"""Takes optimizer steps; holds the weights, the optimizers and the references for replay.

A step depends only on the state before it, its batch and the run's config. The learning rate
(unless a batch brings its own), the replayed references and the order of several updates depend
only on config, seed and step. Dropout is off, and the order of every sum is fixed. The same batches
therefore give the same weights, bit by bit, on one machine with one version of torch. A checkpoint
needs no random state besides seed and step.
"""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from coevolve.delivery.probe import probe_tokens
from coevolve.learning import attribution
from coevolve.learning.attribution import Gauge, NoiseScale, Part
from coevolve.learning.batch import Batch, Rates, imitated_rows
from coevolve.learning.checkpoint_folder import (
    TrainerState,
    read_checkpoint_files,
    write_checkpoint_files,
)
from coevolve.learning.constraints import Constraints
from coevolve.learning.losses import aggregation, credit
from coevolve.learning.losses.aggregation import LossNormalizer
from coevolve.learning.losses.imitation import imitated
from coevolve.learning.metrics import StepMetrics
from coevolve.learning.objective import needs_initial_model
from coevolve.learning.objective_registry import objective_of
from coevolve.learning.optimizers import TEACHERS, Optimizers, Teacher
from coevolve.learning.policy import Policy, make_repeatable, micro_batches, padded, written
from coevolve.learning.rates import rate_share
from coevolve.learning.rows import Conversation, Row, alike, amounts, sides
from coevolve.learning.sharded.partition import share
from coevolve.learning.sharded.ranks import ALONE, Ranks
from coevolve.learning.step_loss import StepLoss
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import LearnerError
from protocols.learning import Probe

UPDATES = 1
"""Separates the random order of a step's updates from its draw of replayed references."""

PARTS: dict[Teacher, tuple[Part, ...]] = {
    "objective": ("even", "odd"),
    "imitation": ("imitation", "replay"),
}
"""The gradients that make up each teacher's gradient, in the order in which they are added."""


class Trainer:
    """A policy with the state needed to train it by one batch."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        weights: Path | None = None,
        checkpoint: Path | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        """Load version 0 from ``weights`` or ``base``, or continue from ``checkpoint``.

        With several ``ranks``, each of them has a trainer, and all call the same methods with the
        same arguments; one of them writes files.
        """
        learner = config.learner
        self._config = config
        self._ranks = ranks
        self._objective = objective_of(learner)
        make_repeatable(learner.threads)
        self._policy = Policy(
            config.policy,
            base,
            weights=weights,
            filled=checkpoint is None,
            seed=config.seed,
            with_reference=needs_initial_model(self._objective, learner),
            ranks=ranks,
        )
        self._constraints = Constraints(self._policy.vocabulary)
        self._optimizers = Optimizers(self._policy.named_parameters(), learner)
        self._gauge = Gauge(self._policy.parameters())
        self._noise = NoiseScale()
        self._replay: deque[Conversation] = deque(maxlen=learner.imitation.replay_size)
        self._step = 0
        self._rate_factor = 1.0
        self._cpu_s = 0.0
        if checkpoint is not None:
            self._restore(checkpoint)

    @property
    def step(self) -> int:
        """Return the last step, which is the version of the weights."""
        return self._step

    def cpu_s(self) -> float:
        return self._cpu_s

    def take_step(self, batch: Batch) -> dict[str, float]:
        """Train one step on rollouts and return its metrics.

        An uninformative batch leaves the weights unchanged but still counts as a step.

        Raises:
            LearnerError: The batch is not the next one, or loss or gradient are not finite.
        """
        rows = self._rows(batch)
        groups = ", ".join(group.record.group_id for group in batch.groups)
        normalizer = self._normalizer(batch, rows)
        return self._improve(batch.step, rows, normalizer, f"groups {groups}", batch.rates)

    def _improve(
        self,
        step: int,
        rows: Sequence[Row],
        normalizer: LossNormalizer,
        what: str,
        rates: Rates | None = None,
    ) -> dict[str, float]:
        """Make the updates of one step; ``what`` names its rows in error messages."""
        self._check_next(step)
        rates = rates or self._rates(step)
        learner = self._config.learner
        started_s = self._clock_s()
        step_metrics = StepMetrics(level=learner.importance, cap=learner.importance_cap)
        updates = list(self._updates(step, rows))
        share = normalizer.of_mini_batch(len(updates) // learner.ppo_epochs)
        norms = [self._update(each, share, step_metrics, step, rates, what) for each in updates]
        step_metrics = StepMetrics.merged(self._ranks.gathered(step_metrics))
        self._step = step
        self._cpu_s += self._clock_s() - started_s
        groups = {row.group for row in rows if row.source == "objective"}
        odd = sum(group % 2 for group in groups)
        return (
            step_metrics.metrics(len(updates))
            | attribution.shares(step_metrics.sums)
            | (
                self._noise.add(step_metrics.sums, len(groups) - odd, odd)
                if len(updates) == 1
                else {}
            )
            | amounts(rows)
            | {
                "actor/grad_norm": math.fsum(norms) / len(norms),
                **rates.metrics(),
                "perf/trained_tokens": float(sum(len(side.token_ids) for side in sides(rows))),
            }
        )

    def _rates(self, step: int) -> Rates:
        """Return the learning rates of a step, from the config and the guard's returns."""
        learner = self._config.learner
        share = rate_share(learner, step) * self._rate_factor
        return Rates(
            objective=learner.learning_rate * share,
            imitation=learner.imitation.learning_rate * share,
        )

    def _updates(self, step: int, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        learner = self._config.learner
        if learner.ppo_epochs == learner.mini_batches == 1:
            yield rows
            return
        rows = self._with_start(rows)
        rng = np.random.default_rng([self._config.seed, step, UPDATES])
        count = max(1, min(learner.mini_batches, len(rows)))
        for _ in range(learner.ppo_epochs):
            order = rng.permutation(len(rows))
            for part in np.array_split(order, count):
                yield [rows[int(index)] for index in part]

    @torch.no_grad()
    def _with_start(self, rows: Sequence[Row]) -> list[Row]:
        """Return ``rows`` with the policy's logprobs of their samples before any update."""
        sampled = [row for row in rows if row.is_sampled]
        found = [row for row in rows if not row.is_sampled]
        temperature = self._config.rollout.temperature
        budget, shares = self._config.learner.micro_batch_tokens, self._policy.shares_prefixes
        for pack in micro_batches(sampled, budget, shares=shares):
            ids_B_T, mask_B_T = padded(pack)
            logprobs_N, _ = self._policy.logprobs(
                ids_B_T,
                mask_B_T,
                temperature=temperature,
                allowed_N_V=self._constraints.allowed(pack),
            )
            parts = iter(torch.split(logprobs_N, written(mask_B_T)))
            for row in pack:
                scored = [
                    dataclasses.replace(side, old_logprobs=next(parts).tolist())
                    for side in row.sides
                ]
                found.append(dataclasses.replace(row, sides=tuple(scored)))
        return found

    def _update(
        self,
        rows: Sequence[Row],
        normalizer: LossNormalizer,
        step_metrics: StepMetrics,
        step: int,
        rates: Rates,
        what: str,
    ) -> float:
        """Update the weights once per teacher with rows; return the objective's gradient norm."""
        learner = self._config.learner
        loss = StepLoss(
            self._policy,
            self._config,
            constraints=self._constraints,
            normalizer=normalizer,
            step_metrics=step_metrics,
            version=step - 1,
        )
        parts, shares = _parts(rows), self._policy.shares_prefixes
        norms = dict.fromkeys(TEACHERS, 0.0)
        for teacher in TEACHERS:
            taught: list[Part] = [part for part in PARTS[teacher] if parts[part]]
            if not taught:
                continue
            self._optimizers.zero_grad()
            self._gauge.begin()
            for part in taught:
                for kind in alike(parts[part]):
                    compares = self._compares(kind[0], step)
                    for pack in share(
                        kind, learner.micro_batch_tokens, self._ranks, shares_prefixes=shares
                    ):
                        loss.add(pack, compares=compares)
                self._gauge.added(part)
            norm = norms[teacher] = self._optimizers.clip()
            if not (math.isfinite(norm) and math.isfinite(step_metrics.loss)):
                raise LearnerError(
                    f"step {step} on {what}: loss {step_metrics.loss} and gradient norm {norm} "
                    "must be finite; nothing was published. Start a new run with a lower "
                    "learner.learning_rate"
                )
            is_objective = teacher == "objective"
            self._optimizers.step(teacher, rates.objective if is_objective else rates.imitation)
            self._gauge.moved(teacher)
        step_metrics.add(**self._gauge.sums())
        return norms["objective"]

    def _compares(self, row: Row, step: int) -> bool:
        """Return whether rows of this kind need the initial model's logprobs."""
        learner = self._config.learner
        measures = bool(learner.divergence_every and step % learner.divergence_every == 0)
        return any(each.targets == "initial" for each in row.streams) or (
            row.is_sampled and (learner.kl_coefficient > 0 or measures)
        )

    def go_back(self, step: int, folder: Path, rate_factor: float) -> dict[str, float]:
        """Take step ``step`` back to the weights in ``folder``, and return its metrics.

        This resets momentum, keeps the references for replay, and multiplies all later learning
        rates by ``rate_factor``. Raises LearnerError if the step is not the next one.
        """
        self._check_next(step)
        self._policy.load(folder)
        self._optimizers.reset()
        self._noise = NoiseScale()
        self._rate_factor = rate_factor
        self._step = step
        return self._rates(step).metrics()

    def load_weights(self, folder: Path) -> None:
        """Replace the weights by those in ``folder``; step and momentum stay."""
        self._policy.load(folder)

    def _check_next(self, step: int) -> None:
        if step != self._step + 1:
            raise LearnerError(f"step {self._step + 1} is next, got step {step}")

    @torch.no_grad()
    def probe(self) -> Probe:
        """Return the run's probe, with the current weights' logprobs."""
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
        """Write the weights and their config into ``folder``."""
        self._policy.save(folder)

    def save(self, folder: Path) -> None:
        """Write a checkpoint into ``folder``."""
        state = TrainerState(
            step=self._step,
            seed=self._config.seed,
            learning_rate=self._rates(self._step).objective,
            rate_factor=self._rate_factor,
            noise=self._noise.state,
            replay=tuple((tuple(each.token_ids), tuple(each.mask)) for each in self._replay),
        )
        write_checkpoint_files(folder, state, self._policy, self._optimizers, self._ranks)

    def _restore(self, folder: Path) -> None:
        state = read_checkpoint_files(folder, self._policy, self._optimizers, self._ranks)
        self._step = state.step
        self._rate_factor = state.rate_factor
        self._noise = NoiseScale(*state.noise)
        self._replay.extend(Conversation(token_ids=ids, mask=mask) for ids, mask in state.replay)

    def _rows(self, batch: Batch) -> list[Row]:
        """Return the rows that the step trains on, and store the batch's references for replay."""
        config = self._config.learner
        rows: list[Row] = []
        number = 0
        self._replay.extend(batch.kept)
        for group in batch.groups:
            if group.record.use == "policy_gradient":
                learned = self._objective.rows(group, config)
                rows.extend(dataclasses.replace(row, group=number) for row in learned)
                number += 1
            elif group.record.use == "imitation":
                rows.extend(imitated_rows(group, config))
                if group.reference is not None:
                    self._replay.append(group.reference)
        rng = np.random.default_rng([self._config.seed, batch.step])
        weight = config.imitation.replay_weight
        count = min(config.imitation.replay_per_step, len(self._replay)) if weight else 0
        drawn = rng.choice(len(self._replay), size=count, replace=False) if count else ()
        rows.extend(imitated(self._replay[int(index)], weight, "replay") for index in drawn)
        return rows

    def _normalizer(self, batch: Batch, rows: Sequence[Row]) -> LossNormalizer:
        learner, size = self._config.learner, self._config.rollout.group_size
        rule = self._objective.aggregation_rule()
        if rule is None:
            return aggregation.of_rows(rows)
        return aggregation.of_batch(
            rule,
            [credit.written(each) for group in batch.groups for each in group.rollouts],
            expected_tokens=float(learner.groups_per_step * size * learner.loss_normalizer_tokens),
        )

    def _clock_s(self) -> float:
        """Return CPU time: this thread's, or the process's if a step uses several threads."""
        return time.thread_time() if self._config.learner.threads == 1 else time.process_time()


def _parts(rows: Sequence[Row]) -> dict[Part, list[Row]]:
    parts: dict[Part, list[Row]] = {"even": [], "odd": [], "imitation": [], "replay": []}
    for row in rows:
        match row.source:
            case "objective":
                parts["odd" if row.group % 2 else "even"].append(row)
            case source:
                parts[source].append(row)
    return parts
