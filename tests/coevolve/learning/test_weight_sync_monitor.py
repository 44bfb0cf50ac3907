import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.learning.weight_sync_monitor import WeightSyncMonitor
from protocols.config import DeliveryConfig, RunConfig
from protocols.control import Cause, RolloutScaled, RunResumed, RunStarted
from protocols.errors import DeliveryError
from protocols.journal import Message
from protocols.learning import (
    Evaluation,
    GroupDiscarded,
    NothingDelivered,
    OldVersionServed,
    PolicyVersion,
    StepReport,
    WeightsVerified,
    WeightSyncAlarm,
)
from tests.coevolve.learning.learners import learner
from tests.delivering import settings
from tests.learning import MemoryJournal, add_groups, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def proof(
    engine: str, version: int, *, difference: float = 0.0, pause_s: float = 0.0
) -> WeightsVerified:
    return WeightsVerified(
        engine=engine,
        version=version,
        digest="",
        max_abs_difference=difference,
        wall_s=0.1,
        pause_s=pause_s,
        proven_ns=time.time_ns(),
    )


def scaled(*engines: str, cause: Cause = "request") -> RolloutScaled:
    return RolloutScaled(cause=cause, actors=len(engines), engines=engines)


def begin(journal: MemoryJournal, *engines: str) -> None:
    """Write the records with which a run begins."""
    journal.add(RunStarted(run_id="r", config=""), scaled(*engines, cause="start"))


def monitor(journal: MemoryJournal) -> WeightSyncMonitor:
    async def append(messages: Sequence[Message]) -> tuple[int, ...]:
        journal.add(*messages)
        return ()

    config = RunConfig(name="test", delivery=DeliveryConfig(timeout_s=0.2))
    return WeightSyncMonitor(config, reader=journal, append=append)


async def watch(journal: MemoryJournal, *engines: str) -> WeightSyncMonitor:
    """Return a monitor of a run that begins with these engines, by default with one."""
    begin(journal, *(engines or ("rollout-0",)))
    watching = monitor(journal)
    await watching.check()
    return watching


def alarms(journal: MemoryJournal) -> list[WeightSyncAlarm]:
    return [alarm for alarm in journal.all(WeightSyncAlarm) if isinstance(alarm, WeightSyncAlarm)]


async def test_a_version_that_no_engine_proves_raises_an_alarm_that_is_recorded() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal, "rollout-0", "rollout-1")
    waiting.published(3)
    journal.add(proof("rollout-0", 3))
    await waiting.check()
    await asyncio.sleep(waiting.left_s + 0.01)
    with pytest.raises(DeliveryError, match="rollout-1 must serve version 3, and no proo"):
        await waiting.check()
    (alarm,) = alarms(journal)
    assert (alarm.engine, alarm.version) == ("rollout-1", 3)
    assert isinstance(alarm.reason, NothingDelivered)
    assert alarm.reason.waited_s >= 0.2
    assert alarm.reason.newest == -1
    with pytest.raises(DeliveryError):
        await waiting.check()
    assert len(alarms(journal)) == 1


async def test_versions_that_an_engine_passed_over_need_no_proof() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal)
    for version in range(4):
        waiting.published(version)
    journal.add(proof("rollout-0", 3))
    await asyncio.sleep(0.25)
    await waiting.check()
    assert waiting.left_s == 0.2


async def test_a_proof_that_came_before_anyone_looked_is_in_time() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal)
    waiting.published(0)
    journal.add(proof("rollout-0", 0))
    await asyncio.sleep(0.25)  # a long step of the learner
    await waiting.check()


async def test_each_version_has_its_own_time() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal)
    for version in range(4):
        waiting.published(version)
        await asyncio.sleep(0.1)
        journal.add(proof("rollout-0", version))
        await waiting.check()
    assert not alarms(journal)


def scored_version(number: int, *, kept: bool) -> PolicyVersion:
    return PolicyVersion(version=number, path="", format="full", digest="", size_bytes=1, kept=kept)


async def test_no_time_counts_while_engines_stay_at_a_version_that_is_scored() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal)
    journal.add(scored_version(0, kept=True), scored_version(1, kept=False))
    waiting.published(0)
    waiting.published(1)
    journal.add(proof("rollout-0", 0))
    for _ in range(2):
        await asyncio.sleep(0.25)
        await waiting.check()
    journal.add(Evaluation(version=0, scores=(), errors=1, wall_s=0.1))
    await asyncio.sleep(0.25)
    with pytest.raises(DeliveryError, match="rollout-0 must serve version 1, and no proof"):
        await waiting.check()


async def test_proofs_from_before_a_resumption_do_not_count() -> None:
    journal = MemoryJournal()
    begin(journal, "rollout-0")
    journal.add(proof("rollout-0", 5), RunResumed(run_id="r", config=""))
    journal.add(scaled("rollout-0", cause="start"))
    waiting = monitor(journal)
    await waiting.check()
    waiting.published(5)
    await asyncio.sleep(0.25)
    with pytest.raises(DeliveryError):
        await waiting.check()


async def test_a_learner_that_was_started_again_knows_what_engines_have_proven() -> None:
    journal = MemoryJournal()
    begin(journal, "rollout-0")
    journal.add(proof("rollout-0", 5))
    waiting = monitor(journal)
    await waiting.check()
    waiting.published(5)
    assert waiting.left_s == 0.2
    assert "timing_s/param_sync" not in waiting.metrics()


async def test_an_alarm_holds_until_the_run_is_resumed() -> None:
    journal = MemoryJournal()
    reason = OldVersionServed(served=0, evidence="digest")
    journal.add(RunStarted(run_id="r", config=""))
    journal.add(WeightSyncAlarm(engine="evaluator", version=1, reason=reason))
    for _ in range(2):
        with pytest.raises(
            DeliveryError, match="evaluator must serve version 1, and by the digest"
        ):
            await monitor(journal).check()
    journal.add(RunResumed(run_id="r", config=""))
    await monitor(journal).check()


async def test_the_time_to_the_last_proof_is_that_of_the_newest_version_with_all() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal, "rollout-0", "rollout-1")
    waiting.published(0)
    published_ns = time.time_ns()
    waiting.published(1)
    journal.add(proof("rollout-0", 0, difference=1e-6, pause_s=0.01))
    await waiting.check()
    assert waiting.metrics() == {
        "delivery/max_abs_logprob_difference": 1e-6,
        "timing_s/param_sync_pause": 0.01,
    }
    last = msgspec.structs.replace(
        proof("rollout-1", 1, difference=1e-7), proven_ns=published_ns + 100_000_000_000
    )
    journal.add(proof("rollout-0", 1, difference=2e-6), last, proof("evaluator", 0, difference=1.0))
    await waiting.check()
    metrics = waiting.metrics()
    assert metrics["delivery/max_abs_logprob_difference"] == 2e-6
    assert metrics["timing_s/param_sync"] == pytest.approx(100, abs=10)
    assert waiting.metrics() == {}


async def test_an_engine_that_was_let_go_has_nothing_to_prove() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal, "rollout-0", "rollout-1")
    waiting.published(1)
    journal.add(proof("rollout-0", 1), scaled("rollout-0"))
    await asyncio.sleep(0.25)
    await waiting.check()
    waiting.published(2)
    journal.add(proof("rollout-0", 2), proof("rollout-1", 0))
    await asyncio.sleep(0.25)
    await waiting.check()
    assert waiting.left_s == 0.2
    assert not alarms(journal)


async def test_an_added_engine_has_to_prove_versions_from_its_first_proof_on() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal)
    journal.add(scaled("rollout-0", "rollout-1"))
    waiting.published(1)
    journal.add(proof("rollout-0", 1))
    await asyncio.sleep(0.25)
    await waiting.check()
    journal.add(proof("rollout-1", 1))
    await waiting.check()
    waiting.published(2)
    journal.add(proof("rollout-0", 2))
    await asyncio.sleep(0.25)
    with pytest.raises(DeliveryError, match="rollout-1 must serve version 2"):
        await waiting.check()


async def test_an_engine_that_comes_back_under_its_name_begins_anew() -> None:
    journal = MemoryJournal()
    waiting = await watch(journal, "rollout-0", "rollout-1")
    journal.add(proof("rollout-0", 3), proof("rollout-1", 3), scaled("rollout-0"))
    journal.add(scaled("rollout-0", "rollout-1"))
    await waiting.check()
    waiting.published(4)
    journal.add(proof("rollout-0", 4))
    await asyncio.sleep(0.25)
    await waiting.check()
    again = monitor(journal)
    await again.check()
    again.published(4)
    assert again.left_s == 0.2


async def test_a_learner_whose_versions_reach_nobody_takes_no_further_step(
    model: Path, tmp_path: Path
) -> None:
    config = settings(model, timeout_s=0.3)
    journal = MemoryJournal()
    begin(journal, "rollout-0")
    add_groups(journal, range(1))
    with pytest.raises(DeliveryError, match="rollout-0 must serve version 0, and no proof came"):
        await asyncio.wait_for(learner(config, tmp_path, journal).run(), 30)
    add_groups(journal, range(1, 6))
    with pytest.raises(DeliveryError):
        await learner(config, tmp_path, journal).run()
    assert [type(alarm.reason) for alarm in alarms(journal)] == [NothingDelivered]
    assert not journal.all(StepReport)
    assert not journal.finished
    journal.add(RunResumed(run_id="r", config=""))
    await learner(settings(model), tmp_path, journal).run()
    assert len(journal.all(StepReport)) == config.learner.steps


async def test_an_alarm_of_an_engine_keeps_the_learner_from_a_batch_that_is_complete(
    model: Path, tmp_path: Path
) -> None:
    config = settings(model)
    journal = MemoryJournal()
    add_groups(journal, range(3))
    part = learner(config, tmp_path, journal)
    running = asyncio.create_task(part.run())
    await journal.until(lambda: part.status().waits_for == "complete groups (1 of 2)")
    reason = OldVersionServed(served=0, evidence="logprobs")
    journal.add(WeightSyncAlarm(engine="rollout-0", version=1, reason=reason))
    add_groups(journal, range(3, 6))
    await journal.append(msgspec.structs.replace(MemoryJournal().as_append(), records=()))
    with pytest.raises(DeliveryError, match="by the logprobs it serves version 0 instead"):
        await asyncio.wait_for(running, 30)
    assert len(journal.all(StepReport)) == 1
    assert "serves version 0 instead" in part.status().last_error


async def test_a_damaged_version_is_written_again_when_the_learner_comes_back(
    model: Path, tmp_path: Path
) -> None:
    config = settings(model)
    journal = MemoryJournal()
    add_groups(journal, range(6))
    await learner(config, tmp_path, journal).run()
    last = [v for v in journal.all(PolicyVersion) if isinstance(v, PolicyVersion)][-1]
    weights = tmp_path / last.path / "adapter_model.safetensors"
    right = weights.read_bytes()
    weights.write_bytes(right[:-1] + b"x")
    await learner(config, tmp_path, journal).run()
    assert weights.read_bytes() == right
    shutil.rmtree(weights.parent)
    await learner(config, tmp_path, journal).run()
    assert weights.read_bytes() == right


async def test_a_rollout_that_waited_in_the_queue_beyond_the_bound_is_discarded(
    model: Path, tmp_path: Path
) -> None:
    # Version 0 samples all of them, and all complete at once; the time of their turn counts.
    config = settings(model)
    config = msgspec.structs.replace(
        config, learner=msgspec.structs.replace(config.learner, max_staleness=1, steps=3)
    )
    journal = MemoryJournal()
    add_groups(journal, range(6), version=0)
    running = asyncio.create_task(learner(config, tmp_path, journal).run())
    await journal.until(lambda: len(journal.all(GroupDiscarded)) == 2)
    add_groups(journal, range(6, 8), version=1)
    await journal.append(msgspec.structs.replace(MemoryJournal().as_append(), records=()))
    await asyncio.wait_for(running, 30)
    discarded = [each for each in journal.all(GroupDiscarded) if isinstance(each, GroupDiscarded)]
    assert [each.group_id for each in discarded] == ["g4", "g5"]
    assert {each.reason for each in discarded} == {"stale"}
    steps = [each for each in journal.all(StepReport) if isinstance(each, StepReport)]
    trained = [[group.group_id for group in step.groups] for step in steps]
    assert trained == [["g0", "g1"], ["g2", "g3"], ["g6", "g7"]]
    assert [step.metrics["training/off_policy/version_lag_max"] for step in steps] == [0, 1, 1]
