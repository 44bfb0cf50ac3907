from pathlib import Path

import msgspec
import pytest

from coevolve.history.directory import RunDirectory
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.runs import starting
from protocols.config import LearnerConfig, RolloutConfig, RunConfig
from protocols.learner_config import ImitationConfig
from tests.coevolve.learning.learners import learner
from tests.commands import answered
from tests.learning import MemoryJournal, add_groups

CONFIG = RunConfig(
    name="test",
    rollout=RolloutConfig(group_size=4),
    learner=LearnerConfig(
        steps=3,
        groups_per_step=2,
        max_staleness=9,
        imitation=ImitationConfig(weight=0.0),
        refill_batches=0,
        checkpoint_every=2,
    ),
)


@pytest.fixture
async def run_dir(tmp_path: Path) -> Path:
    """A finished run of the shipped policy, without its actors."""
    path = tmp_path / "run"
    directory = starting.create(path, CONFIG)
    journal = Journal.open(directory.store, map_size_bytes=1 << 28)
    store = LocalStore(journal)
    groups = MemoryJournal()
    add_groups(groups, range(6))
    await store.append(groups.as_append())
    await learner(CONFIG, path, store).run()
    journal.close()
    return path


def code_and_output(*words: str) -> tuple[int, str]:
    answer = answered("replay", *words)
    return answer.returncode, answer.stdout + answer.stderr


def test_a_run_replays_to_its_recorded_weights(run_dir: Path):
    code, output = code_and_output(str(run_dir))
    assert code == 0
    assert [line.split(",")[0] for line in output.splitlines()] == [
        "step 1: equal",
        "step 2: equal",
        "step 3: equal",
        "3 of 3 steps reached their recorded weights",
    ]
    code, output = code_and_output(str(run_dir), "--from-checkpoint", "2")
    assert (code, output.splitlines()[-1]) == (0, "1 of 1 steps reached their recorded weights")


def test_a_difference_is_named_and_fails_the_command(run_dir: Path):
    other = msgspec.structs.replace(
        CONFIG, learner=msgspec.structs.replace(CONFIG.learner, max_grad_norm=1e-3)
    )
    RunDirectory(run_dir).write_config(other)
    code, output = code_and_output(str(run_dir))
    assert code == 1
    assert "step 1: DIFFERS" in output
    assert "0 of 3 steps" in output


def test_what_is_no_run_is_refused(tmp_path: Path):
    code, output = code_and_output(str(tmp_path))
    assert code == 1
    assert "is neither a run's folder nor" in output


def test_a_checkpoint_that_never_was_is_refused(run_dir: Path):
    code, output = code_and_output(str(run_dir), "--from-checkpoint", "1")
    assert (code, output) == (
        1,
        "coevolve: the journal has no checkpoint of step 1, or the run removed it "
        "(learner.keep_checkpoints); it has: 2, 3\n",
    )
