import shutil
from pathlib import Path

import pytest
import torch
from structlog.testing import capture_logs

from coevolve.commands.replay import replay
from coevolve.environments.tools.observer import ReferenceSupervision
from coevolve.learning.history import History
from protocols.errors import CheckpointError, JournalError
from protocols.learning import Checkpoint
from tests.coevolve.learning.sharded.test_trainer import others
from tests.coevolve.learning.test_learner import (
    digests,
    fail_at_step,
    learner,
    reports,
    settings,
    versions,
)
from tests.learning import MemoryJournal, ReferenceRenderer, add_groups, small_model


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


@pytest.mark.timeout(300)
@pytest.mark.exhaustive
async def test_a_run_goes_on_with_another_number_of_devices_and_says_so(tmp_path: Path):
    """Two processes take two steps, and one takes them again to rounding, and two more."""
    model, run_dir = small_model(tmp_path / "model"), tmp_path / "run"
    journal = MemoryJournal()
    add_groups(journal, range(16))
    await learner(settings(model, steps=2, devices=2), run_dir, journal).run()
    shutil.rmtree(run_dir / "checkpoints")

    one = settings(model, steps=4, checkpoint_every=9)
    second = run_dir / "versions/v_2"
    second.rename(tmp_path / "away")
    with pytest.raises(CheckpointError, match=r"2 processes took step 2.*learner.devices=2"):
        await learner(one, run_dir, journal).run()
    (tmp_path / "away").rename(second)
    with capture_logs() as logs:
        await learner(one, run_dir, journal).run()
    assert {"step_taken_again_to_rounding"} == {
        each["event"] for each in logs if each.get("recorded_devices") == 2
    }
    assert [report.devices for report in reports(journal)] == [2, 2, 1, 1]
    checkpoints = [each for each in journal.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [(each.step, each.devices) for each in checkpoints] == [(2, 2), (2, 1), (4, 1)]

    shutil.rmtree(run_dir / "checkpoints/step_4")
    await learner(settings(model, steps=4), run_dir, journal).run()
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    replayed = [each async for each in replay(one, run_dir, history)]
    assert [each.equal for each in replayed] == [True] * 4
    assert not others()
