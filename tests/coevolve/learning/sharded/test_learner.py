from pathlib import Path

import pytest
import torch

from protocols.errors import JournalError
from tests.coevolve.learning.sharded.test_trainer import others
from tests.coevolve.learning.test_learner import (
    digests,
    fail_at_step,
    learner,
    settings,
    versions,
)
from tests.learning import MemoryJournal, add_groups, small_model


@pytest.mark.timeout(300)
async def test_a_learner_on_two_devices_reaches_the_same_bits_again_after_a_failure(
    tmp_path: Path,
):
    config = settings(small_model(tmp_path / "model"), steps=2, checkpoint_every=10, devices=2)
    journal = MemoryJournal()
    add_groups(journal, range(12))
    journal.before_complete = fail_at_step(2)
    with pytest.raises(JournalError, match="the power went"):
        await learner(config, tmp_path, journal).run()
    assert len(digests(journal)) == 1
    assert not others()
    assert not torch.distributed.is_initialized()

    journal.before_complete = lambda _: None
    await learner(config, tmp_path, journal).run()
    assert [version.version for version in versions(journal)] == [0, 1, 2]
    assert not others()
