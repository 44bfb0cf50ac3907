import argparse

import pytest

from coevolve.models.model_folder import TINY_FOLDER
from tests.bench.batches import GROUP_SIZE, GROUPS, batch_groups
from tests.bench.learner import learner_step, trl_step

OPTIONS = argparse.Namespace(rows=GROUP_SIZE, precision="fp32")


def test_the_batch_is_the_same_every_time():
    assert batch_groups() == batch_groups()
    assert [len(group.rollouts) for group in batch_groups()] == [GROUP_SIZE] * GROUPS


def test_the_learner_and_trl_take_steps_on_the_batch_and_report_their_padding():
    groups = batch_groups()
    ours, theirs = (make(TINY_FOLDER, groups, OPTIONS) for make in (learner_step, trl_step))
    tokens = sum(rollout.tokens.count for group in groups for rollout in group.rollouts)
    assert tokens > 1000
    assert 0 < ours(1) < theirs(1) < 1
    assert ours(2) == pytest.approx(ours(3))
