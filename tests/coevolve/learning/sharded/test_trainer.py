"""Two CPU processes compared with one, and the effect of a failure of one of them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from coevolve.learning.sharded.rendezvous import LOOPBACK, open_meeting
from coevolve.learning.sharded.trainer import ShardedTrainer
from coevolve.learning.trainer import Trainer
from coevolve.parts.files import LocalFiles
from protocols import columns
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import LearnerError, RankError
from protocols.learner_config import ImitationConfig
from tests.coevolve.learning.test_trainer import batch
from tests.learning import small_model

pytestmark = pytest.mark.timeout(300)
"""Another process must import torch and transformers, which takes long on a busy machine."""

PATIENCE_S = 10.0
STEPS = 3


def configured(devices: int, policy: PolicyConfig) -> RunConfig:
    """Return settings with all parts of a step: rollouts, references, replay and a divergence."""
    return RunConfig(
        name="sharded",
        seed=5,
        policy=policy,
        rollout=RolloutConfig(group_size=4),
        learner=LearnerConfig(
            groups_per_step=3,
            kl_coefficient=0.1,
            imitation=ImitationConfig(replay_per_step=2),
            micro_batch_tokens=30,
            devices=devices,
            device_timeout_s=PATIENCE_S,
        ),
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> LocalFiles:
    """Return the folder of a run, in which the processes find what they read and write."""
    return LocalFiles(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def pair(model: Path, files: LocalFiles) -> Generator[tuple[Trainer, ShardedTrainer]]:
    """Return a trainer of one process and one of two, some steps from the same weights."""
    one = Trainer(configured(1, PolicyConfig()), model)
    two = ShardedTrainer(configured(2, PolicyConfig()), model, files)
    yield one, two
    two.close()


@pytest.fixture(scope="module")
def saved(pair: tuple[Trainer, ShardedTrainer], files: LocalFiles) -> Path:
    """Return a checkpoint of the two processes."""
    files.assemble("saved", pair[1].save)
    return files.folder / "saved"


def others() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("sharded.processes" in part for part in child.cmdline()):
                found.append(child)
    return found


def comparable(metrics: dict[str, float]) -> dict[str, float]:
    """Return all metrics except padding, which depends on the partition."""
    return {name: value for name, value in metrics.items() if name != "perf/padding_share"}


def written(trainer: Trainer | ShardedTrainer, folder: Path) -> dict[str, bytes]:
    """Return name -> content of the files of the trainer's version."""
    folder.mkdir()
    trainer.save_weights(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_processes_start_with_the_files_of_one(
    pair: tuple[Trainer, ShardedTrainer], tmp_path: Path
):
    one, two = pair
    assert one.step == 0
    assert written(two, tmp_path / "2") == written(one, tmp_path / "1")


def test_two_processes_report_what_one_does(pair: tuple[Trainer, ShardedTrainer]):
    one, two = pair
    for step in range(1, STEPS + 1):
        expected, found = one.take_step(batch(step)), two.take_step(batch(step))
        assert comparable(found) == pytest.approx(comparable(expected), rel=1e-5, abs=1e-5)
    assert two.step == STEPS
    assert two.cpu_s() > 0


def test_the_whole_weights_are_written(pair: tuple[Trainer, ShardedTrainer], tmp_path: Path):
    written: list[dict[str, torch.Tensor]] = []
    for number, trainer in enumerate(pair):
        folder = tmp_path / str(number)
        folder.mkdir()
        trainer.save_weights(folder)
        written.append(load_file(folder / "model.safetensors"))
    expected, found = written
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.allclose(found[name], tensor, atol=1e-5), name


def test_the_probe_is_that_of_one_process(pair: tuple[Trainer, ShardedTrainer]):
    expected, found = (trainer.probe() for trainer in pair)
    assert found.token_ids == expected.token_ids
    logprobs = list(columns.from_float32(expected.logprobs))
    assert list(columns.from_float32(found.logprobs)) == pytest.approx(logprobs, abs=1e-4)


def test_two_processes_go_back_to_weights_of_one(
    pair: tuple[Trainer, ShardedTrainer], files: LocalFiles, tmp_path: Path
):
    one, two = pair
    back_to = files.folder / "back"
    back_to.mkdir()
    one.save_weights(back_to)
    for trainer in pair:
        trainer.take_step(batch(trainer.step + 1))
    assert [each.go_back(each.step + 1, back_to, 0.5) for each in pair] == [
        {"actor/lr": 1e-3, "actor/imitation_lr": 5e-4}
    ] * 2
    for number, trainer in enumerate(pair):
        (tmp_path / str(number)).mkdir()
        trainer.save_weights(tmp_path / str(number))
    folders = (back_to, tmp_path / "0", tmp_path / "1")
    back, *found = (load_file(folder / "model.safetensors") for folder in folders)
    for weights in found:
        assert weights.keys() == back.keys()
        assert all(weights[name].equal(tensor) for name, tensor in back.items())
    expected, found = (trainer.take_step(batch(trainer.step + 1)) for trainer in pair)
    assert comparable(found) == pytest.approx(comparable(expected), rel=1e-5, abs=1e-5)
    assert two.step == one.step


def test_each_process_writes_its_part_and_one_goes_on_from_all_of_them(
    pair: tuple[Trainer, ShardedTrainer], saved: Path, model: Path
):
    one, two = pair
    parts = [(saved / f"__{rank}_0.distcp").stat().st_size for rank in (0, 1)]
    assert max(parts) < 1.5 * min(parts)
    resumed = Trainer(configured(1, PolicyConfig()), model, checkpoint=saved)
    assert resumed.step == two.step
    following = batch(two.step + 1)
    expected, found = (each.take_step(following) for each in (one, resumed))
    assert comparable(found) == pytest.approx(comparable(expected), rel=1e-4, abs=1e-4)


def test_a_process_that_is_killed_ends_the_step_and_nothing_is_left(
    pair: tuple[Trainer, ShardedTrainer],
):
    _, two = pair
    (other,) = others()
    other.suspend()
    threading.Timer(0.3, lambda: os.kill(other.pid, signal.SIGKILL)).start()
    started_s = time.monotonic()
    with pytest.raises(RankError, match="rank 1 ended with status -9"):
        two.take_step(batch(two.step + 1))
    assert time.monotonic() - started_s < PATIENCE_S
    assert not others()
    assert not torch.distributed.is_initialized()


@pytest.mark.exhaustive
def test_three_processes_go_on_from_a_checkpoint_of_two(
    saved: Path, model: Path, files: LocalFiles, tmp_path: Path
):
    one = Trainer(configured(1, PolicyConfig()), model, checkpoint=saved)
    three = ShardedTrainer(configured(3, PolicyConfig()), model, files, checkpoint=saved)
    try:
        assert written(three, tmp_path / "3") == written(one, tmp_path / "1")
        for step in (one.step + 1, one.step + 2):
            expected, found = one.take_step(batch(step)), three.take_step(batch(step))
            assert comparable(found) == pytest.approx(comparable(expected), rel=1e-4, abs=1e-4)
    finally:
        three.close()


@pytest.mark.exhaustive
def test_two_processes_go_on_with_an_adapter_of_one_and_wait_for_nobody_for_ever(
    model: Path, tmp_path: Path
):
    adapter = PolicyConfig(train="lora", lora_rank=2, precision="bf16")
    one = Trainer(configured(1, adapter), model)
    one.take_step(batch(1))
    one.save(tmp_path)
    two = ShardedTrainer(configured(2, adapter), model, LocalFiles(tmp_path), checkpoint=tmp_path)
    expected, found = one.take_step(batch(2)), two.take_step(batch(2))
    assert comparable(found) == pytest.approx(comparable(expected), rel=1e-2, abs=1e-2)

    (other,) = others()
    other.suspend()
    started_s = time.monotonic()
    with pytest.raises(RankError, match="take_step over several devices: rank 1 did not answer"):
        two.take_step(batch(3))
    assert time.monotonic() - started_s < 4 * PATIENCE_S
    assert not others()


def test_a_second_group_in_one_process_is_refused(model: Path):
    torch.distributed.init_process_group(
        "gloo", store=open_meeting(LOOPBACK, 1), rank=0, world_size=1
    )
    try:
        with pytest.raises(LearnerError, match="in its own process"):
            ShardedTrainer(configured(2, PolicyConfig()), model, LocalFiles(model))
    finally:
        torch.distributed.destroy_process_group()
