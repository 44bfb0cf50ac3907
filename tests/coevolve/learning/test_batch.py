"""What is reported of the rollouts of a step."""

import msgspec

from coevolve.learning.batch import Batch, batch_metrics
from coevolve.learning.group import BatchGroup
from protocols.learning import TrainedGroup
from tests.learning import rollout


def test_a_rollout_lags_as_far_behind_as_its_oldest_token():
    record = TrainedGroup(
        group_id="g1", group=1, task_id="t1", sequences=(), successes=2, use="policy_gradient"
    )
    fresh = rollout(1, 0, size=2, version=3)
    begun_early = msgspec.structs.replace(
        rollout(1, 1, size=2, version=3), version_min=1, ended="too_long"
    )
    group = BatchGroup(record=record, rollouts=(fresh, begun_early), reference=None)
    metrics = batch_metrics(Batch(step=4, groups=(group,)))
    assert metrics["response_length/clip_ratio"] == 0.5
    assert metrics["training/off_policy/version_lag_mean"] == 1.0
    assert metrics["training/off_policy/version_lag_max"] == 2.0
