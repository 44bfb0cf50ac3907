"""Runs whose engines disagree with the learner, or whose versions change on the disk."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.delivery.alarms import fault
from coevolve.journal.codec import decode
from coevolve.journal.local_store import LocalStore
from protocols.config import RunConfig
from protocols.errors import first_error
from protocols.learning import StepReport, WeightsDiffer, WeightsVerified, WeightSyncAlarm
from tests.launched import LaunchedRun, launched
from tests.one_process import run_in

pytestmark = pytest.mark.timeout(600)

SETTINGS = (
    "arm=static",
    "environment.held_out=12",
    "rollout.in_flight_groups=8",
    "learner.groups_per_step=4",
    "learner.steps=60",
    "learner.imitation.replay_per_step=4",
    "rollout.group_size=4",
    "policy.train=lora",
    "evaluator.engine=rollout",
    "delivery.tolerance=1e-9",
)
"""No engine that merges an adapter agrees with the learner to this precision."""


@pytest.mark.usefixtures("short_waits")
async def test_an_engine_that_disagrees_ends_the_run_with_the_reason(tmp_path: Path):
    stores: list[LocalStore] = []

    async def until(config: RunConfig, store: LocalStore) -> None:
        stores.append(store)
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await run_in(tmp_path, load_config("quickstart", SETTINGS), until)
    store = stores[0]
    newest = (await store.statistics()).last_sequence
    messages = [decode(record) for record in await store.read(range(1, newest + 1))]
    alarm = next(message for message in messages if isinstance(message, WeightSyncAlarm))
    assert isinstance(alarm.reason, WeightsDiffer)
    assert 1e-9 < alarm.reason.max_abs_difference < 1e-4
    assert fault(alarm) in str(first_error(raised.value))
    assert any(isinstance(message, WeightsVerified) for message in messages)
    since = messages[messages.index(alarm) :]
    assert sum(isinstance(message, StepReport) for message in since) <= 1


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_version_file_is_rewritten_on_resume_and_ends_the_run_if_it_changes_later(
    tmp_path: Path,
):
    short = (*SETTINGS[:-1], "learner.steps=3", "evaluator.every=100")
    with launched(tmp_path, "damaged", *short) as run:
        assert run.wait() == 0, run.said()
        (weights,) = (run.directory / "versions" / "v_3").glob("*.safetensors")
        right = weights.read_bytes()
        weights.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
        run.start("--resume", "learner.steps=60")
        run.until("steps after the damaged version", lambda: run.step() >= 5)
        assert "the learner rewrites version 3" in run.said()
        assert not run.holds(WeightSyncAlarm)
        taken = [event["step"] for event in run.events("step")]
        assert taken == list(range(1, taken[-1] + 1))
        damaged_until_its_end(run)
        assert run.wait() == 1, run.said()
    said = run.said()
    assert "they were changed after they were published" in said
    assert said.index("report: ") < said.index("coevolve: ")


def damaged_until_its_end(run: LaunchedRun) -> None:
    """Change each version's file as soon as it is there, until the run ends."""
    assert run.process is not None
    while run.process.poll() is None:
        for weights in run.directory.glob("versions/v_*/adapter_model.safetensors"):
            with contextlib.suppress(OSError):
                weights.write_bytes(weights.read_bytes()[:-1])
        time.sleep(0.05)
