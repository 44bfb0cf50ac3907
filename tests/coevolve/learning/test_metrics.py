import math

import pytest
import torch

from coevolve.learning.metrics import StepMetrics, mismatch

START_N = torch.tensor([0.5, 0.2, 0.4]).log()
SAMPLER_N = torch.tensor([0.25, 0.4, 0.4]).log()


def test_the_mismatch_by_token_by_hand():
    found = mismatch(START_N, SAMPLER_N, [2, 1], level="token", cap=1.5)
    expected = {
        "training/rollout_probs_diff_mean": 0.15,
        "training/rollout_probs_diff_max": 0.25,
        "training/rollout_probs_diff_std": math.sqrt((0.25**2 + 0.2**2) / 3 - 0.15**2),
        "rollout_corr/kl": 0.0,
        "rollout_corr/k3_kl": (1 - math.log(2) - 0.5 + math.log(2)) / 3,
        "rollout_corr/training_ppl": 0.04 ** (-1 / 3),
        "rollout_corr/rollout_ppl": 0.04 ** (-1 / 3),
        "rollout_corr/rollout_is_mean": 1.0,
        "rollout_corr/rollout_is_max": 1.5,
        "rollout_corr/rollout_is_min": 0.5,
        "rollout_corr/rollout_is_ratio_fraction_high": 1 / 3,
        "rollout_corr/rollout_is_ratio_fraction_low": 1 / 3,
        "rollout_corr/rollout_is_eff_sample_size": 9 / (3 * 3.5),
        "sampling/sampling_logp_difference/mean": 2 * math.log(2) / 3,
        "sampling/sampling_logp_difference/max": math.log(2),
        "sampling/importance_sampling_ratio/mean": 1.0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_the_ratios_of_a_sequence_are_its_tokens_product():
    found = mismatch(START_N[:2], SAMPLER_N[:2], [1, 1], level="sequence", cap=9.0)
    assert found["sampling/importance_sampling_ratio/max"] == pytest.approx(2.0)
    found = mismatch(START_N[:2], SAMPLER_N[:2], [2], level="sequence", cap=9.0)
    assert found["sampling/importance_sampling_ratio/max"] == pytest.approx(1.0)


def test_losses_are_means_over_updates_and_missing_metrics_are_omitted():
    step_metrics = StepMetrics(level="token", cap=2.0)
    step_metrics.add_loss("pg_loss", torch.tensor(1.0))
    step_metrics.add_loss("pg_loss", torch.tensor(2.0))
    step_metrics.add_loss("imitation_loss", torch.tensor(4.0))
    step_metrics.add_to_mean("rewards/margins", torch.tensor([True, False, True]))
    step_metrics.add_to_mean("rewards/margins", torch.tensor([2.0]))
    metrics = step_metrics.metrics(2)
    assert metrics["actor/pg_loss"] == 1.5
    assert metrics["actor/imitation_loss"] == 2.0
    assert metrics["rewards/margins"] == 1.0
    assert step_metrics.loss == 7.0
    assert "actor/entropy" not in metrics


def test_a_loss_that_is_not_finite_stays_so():
    step_metrics = StepMetrics(level="token", cap=2.0)
    step_metrics.add_loss("pg_loss", torch.tensor(math.inf))
    step_metrics.add_loss("kl_loss", torch.tensor(1.0))
    assert not math.isfinite(step_metrics.loss)
