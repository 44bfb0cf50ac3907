import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coevolve.journal.mailbox import Mailbox
from coevolve.learning.checkpoints import CheckpointWriter
from coevolve.learning.recorded_checkpoints import RecordedCheckpoints
from coevolve.learning.trainer import Trainer
from coevolve.parts.files import LocalFiles
from protocols.errors import CheckpointError, JournalError
from protocols.journal import Message
from protocols.learning import Checkpoint, StepReport
from tests.coevolve.learning.test_learner import (
    digests,
    fail_at_step,
    learner,
    reports,
    settings,
    trained,
)
from tests.coevolve.learning.test_trainer import batch
from tests.learning import MemoryJournal, add_groups, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def checkpoint(step: int, *, kept: bool = True, replaces: tuple[int, ...] = ()) -> Checkpoint:
    return Checkpoint(step=step, path="", digest="", size_bytes=0, kept=kept, replaces=replaces)


def report(step: int, devices: int) -> StepReport:
    return StepReport(
        step=step, groups=(), weights_digest="", groups_consumed=0, metrics={}, devices=devices
    )


def recorded(*messages: Checkpoint | StepReport) -> RecordedCheckpoints:
    found = RecordedCheckpoints()
    for message in messages:
        found.fold(message)
    return found


def test_checkpoints_are_kept_by_count_and_the_best_beside_them():
    three = recorded(checkpoint(10), checkpoint(20), checkpoint(30))
    assert three.replaced(40, kept=True, keep=3, needed=()) == (10,)
    assert three.replaced(40, kept=True, keep=9, needed=()) == ()
    assert three.replaced(40, kept=True, keep=1, needed=()) == (10, 20, 30)
    assert three.replaced(40, kept=True, keep=1, needed=(10, 25)) == (20, 30)
    assert three.replaced(35, kept=False, keep=3, needed=()) == ()
    assert three.replaced(35, kept=False, keep=1, needed=()) == (10, 20)
    assert three.replaced(30, kept=True, keep=3, needed=()) == ()


def test_a_checkpoint_for_recovery_is_replaced_by_the_next_of_either_kind():
    found = recorded(checkpoint(10), checkpoint(11, kept=False))
    assert found.replaced(12, kept=False, keep=3, needed=(11,)) == (11,)
    assert found.replaced(20, kept=True, keep=3, needed=()) == (11,)
    found.fold(checkpoint(12, kept=False, replaces=(11,)))
    assert list(found.existing) == [10, 12]


def test_a_checkpoint_from_which_others_continued_stays():
    messages = (report(5, 2), checkpoint(5, kept=False), report(6, 1))
    found = recorded(*messages)
    assert found.replaced(6, kept=False, keep=1, needed=()) == ()


def groups_after_checkpoints(journal: MemoryJournal) -> None:
    """Let the groups of a step arrive when the step before has its checkpoint."""

    def add(messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, Checkpoint):
                add_groups(journal, range(4 * message.step, 4 * message.step + 4))

    journal.before_append = add


def folders(run_dir: Path) -> set[str]:
    return {path.name for path in (run_dir / "checkpoints").iterdir()}


async def test_a_killed_learner_repeats_no_step_if_each_has_a_checkpoint(
    model: Path, tmp_path: Path
):
    config = settings(model, checkpoint_every=99, recover_every=1)
    journal = MemoryJournal()
    add_groups(journal, range(4))
    groups_after_checkpoints(journal)
    journal.before_complete = fail_at_step(6)
    with pytest.raises(JournalError):
        await learner(config, tmp_path, journal).run()
    assert folders(tmp_path) == {"step_5"}
    journal.before_complete = lambda _: None
    journal.evict([s for each in reports(journal) for g in each.groups for s in g.sequences])
    with capture_logs() as logs:
        await learner(config, tmp_path, journal).run()
    assert not [each for each in logs if each["event"] == "step_taken_again"]
    assert digests(journal) == digests(await trained(settings(model), tmp_path / "straight"))
    assert all("timing_s/save_checkpoint" in each.metrics for each in reports(journal))


async def test_old_checkpoints_are_removed_and_no_other_file(model: Path, tmp_path: Path):
    left = ("step_99", ".partial-step_3", "journal-20260101T000000Z")
    for name in left:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    config = settings(model, checkpoint_every=1, keep_checkpoints=2, guard={"action": "none"})
    journal = await trained(config, tmp_path)
    assert folders(tmp_path) == {"step_5", "step_6", "journal-20260101T000000Z"}
    recovery = settings(model, steps=9, checkpoint_every=4, keep_checkpoints=1, recover_every=1)
    groups_after_checkpoints(journal)
    add_groups(journal, range(24, 28))
    await learner(recovery, tmp_path, journal).run()
    assert folders(tmp_path) == {"step_8", "step_9", "journal-20260101T000000Z"}


async def test_checkpoints_for_recovery_are_written_between_those_that_are_kept(
    model: Path, tmp_path: Path
):
    journal = await trained(settings(model, checkpoint_every=5, recover_every=3), tmp_path)
    found = [each for each in journal.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [(each.step, each.kept) for each in found] == [(3, False), (5, True), (6, False)]
    assert [each.replaces for each in found] == [(), (3,), ()]


class SlowTrainer(Trainer):
    """A trainer that takes long to save its state."""

    def save(self, folder: Path) -> None:
        time.sleep(0.5)
        super().save(folder)


class SlowFiles(LocalFiles):
    """Files that take as long to reach the run's node as a test wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reached = asyncio.Event()

    async def publish(self, path: str) -> None:
        await self.reached.wait()


async def test_a_step_waits_for_the_state_to_be_saved_but_not_for_the_rest(
    model: Path, tmp_path: Path
):
    config = settings(model, checkpoint_every=4, recover_every=1)
    trainer, files, journal = SlowTrainer(config, model), SlowFiles(tmp_path), MemoryJournal()
    mailbox = Mailbox(journal, consumer="l", topics=(), member="l", lease_s=9)
    writer = CheckpointWriter(
        config,
        files,
        trainer=trainer,
        reader=journal,
        append=mailbox.append,
        needed=lambda: (),
        last=0,
    )
    delays: list[float] = []
    for step in range(1, 6):
        trainer.take_step(batch(step))
        writer.begin()
        delays.append(await writer.release())
        if step == 2:
            files.reached.set()
    await writer.leave()
    # Step 2 comes while the first is on its way, and step 3 too soon after such a delay.
    assert [delay > 0.4 for delay in delays] == [True, False, False, True, False]
    found = [each for each in journal.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [(each.step, each.kept) for each in found] == [(1, False), (4, True), (5, False)]


async def test_a_checkpoint_that_cannot_be_written_ends_the_learner_with_a_sentence(
    model: Path, tmp_path: Path
):
    (tmp_path / "checkpoints").write_text("a file")
    journal = MemoryJournal()
    add_groups(journal, range(24))
    part = learner(settings(model, recover_every=1), tmp_path, journal)
    with pytest.raises(CheckpointError, match=r"step_1: cannot be written: .*then resume"):
        await part.run()
    assert len(reports(journal)) == 1
