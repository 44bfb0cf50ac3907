import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest
from peft import PeftModel
from transformers import AutoModelForCausalLM

from coevolve.commands.replay import replay
from coevolve.environments.tools.observer import ReferenceSupervision
from coevolve.journal.codec import decode_as
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.learning.history import History
from coevolve.learning.trainer import Trainer
from coevolve.learning.versions import weights_digest
from coevolve.models.weight_files import version_digest
from coevolve.rollouts.scored_versions import unscored_version
from protocols.config import (
    DeliveryConfig,
    EvaluatorConfig,
    LearnerConfig,
    PolicyConfig,
    RolloutConfig,
    RunConfig,
)
from protocols.errors import CheckpointError, JournalError, LearnerError
from protocols.journal import Message
from protocols.learning import (
    Checkpoint,
    Evaluation,
    GroupDiscarded,
    PolicyVersion,
    StepReport,
    WeightsFormat,
)
from tests.coevolve.learning.learners import learner, reports
from tests.fakes import tool_task
from tests.learning import (
    MemoryJournal,
    ReferenceRenderer,
    add_groups,
    failed,
    rollout,
    small_model,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def settings(model: Path, train: WeightsFormat = "full", **learner: object) -> RunConfig:
    return RunConfig(
        name="test",
        seed=3,
        policy=PolicyConfig(model=str(model), train=train, lora_rank=2, lora_alpha=4),
        rollout=RolloutConfig(group_size=4),
        evaluator=EvaluatorConfig(every=4),
        # No engine sampled the rollouts of these tests.
        delivery=DeliveryConfig(sampler_tolerance=1.0),
        learner=msgspec.convert(
            {
                "steps": 6,
                "groups_per_step": 4,
                "max_staleness": 10,
                "checkpoint_every": 3,
                "recover_every": 0,
                "refill_batches": 0,
                "imitation": {"replay_per_step": 3, "replay_size": 4},
                **learner,
            },
            LearnerConfig,
        ),
    )


def versions(journal: MemoryJournal) -> list[PolicyVersion]:
    return [each for each in journal.all(PolicyVersion) if isinstance(each, PolicyVersion)]


def digests(journal: MemoryJournal) -> list[str]:
    return [report.weights_digest for report in reports(journal)]


def fail_at_step(step: int):
    def fail(outputs: Sequence[Message]) -> None:
        if any(isinstance(output, StepReport) and output.step == step for output in outputs):
            raise JournalError("the power went")

    return fail


async def trained(config: RunConfig, run_dir: Path, groups: int = 24) -> MemoryJournal:
    journal = MemoryJournal()
    add_groups(journal, range(groups))
    await learner(config, run_dir, journal).run()
    return journal


async def test_a_run_publishes_version_0_and_then_one_version_a_step(model: Path, tmp_path: Path):
    journal = await trained(settings(model), tmp_path)
    assert [version.version for version in versions(journal)] == list(range(7))
    assert [report.step for report in reports(journal)] == list(range(1, 7))
    assert [report.groups_consumed for report in reports(journal)] == [4, 8, 12, 16, 20, 24]
    assert len({version.digest for version in versions(journal)}) == 7
    last = versions(journal)[-1]
    assert version_digest(tmp_path / last.path, last.format) == last.digest == digests(journal)[-1]
    assert last.size_bytes == (tmp_path / last.path / "model.safetensors").stat().st_size


async def test_versions_that_are_scored_on_either_kind_of_task_are_kept(
    model: Path, tmp_path: Path
):
    journal = await trained(settings(model, guard={"every": 3}), tmp_path)
    assert [each.version for each in versions(journal) if each.kept] == [0, 3, 4, 6]


async def test_every_rollout_of_a_step_is_finished_with_it(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=2), tmp_path, groups=12)
    used = {s for report in reports(journal) for group in report.groups for s in group.sequences}
    assert journal.finished == used
    assert len(used) == 2 * 4 * 4


async def test_a_step_says_what_it_made_of_each_group(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=1), tmp_path, groups=4)
    (report,) = reports(journal)
    assert [(group.task_id, group.successes, group.use) for group in report.groups] == [
        ("t0", 0, "imitation"),
        ("t1", 2, "policy_gradient"),
        ("t2", 4, "nothing"),
        ("t3", 2, "policy_gradient"),
    ]


async def test_full_weights_load_with_transformers_alone(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=1), tmp_path, groups=4)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / versions(journal)[-1].path)
    assert loaded.config.vocab_size == 64


async def test_adapters_load_with_peft_alone(model: Path, tmp_path: Path):
    journal = await trained(settings(model, "lora", steps=3), tmp_path, groups=12)
    base = AutoModelForCausalLM.from_pretrained(model)
    folder = tmp_path / versions(journal)[-1].path
    loaded = PeftModel.from_pretrained(base, str(folder))
    assert loaded.peft_config["default"].to_dict()["r"] == 2
    assert {path.name for path in folder.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert versions(journal)[-1].format == "lora"


@pytest.mark.parametrize("train", ["full", "lora"])
@pytest.mark.parametrize("step", [1, 3, 5])
async def test_a_restarted_learner_continues_unchanged(
    model: Path, tmp_path: Path, train: WeightsFormat, step: int
):
    config = settings(model, train)
    straight = await trained(config, tmp_path / "straight")
    journal = MemoryJournal()
    add_groups(journal, range(24))
    journal.before_complete = fail_at_step(step)
    with pytest.raises(JournalError):
        await learner(config, tmp_path / "killed", journal).run()
    journal.before_complete = lambda _: None
    await learner(config, tmp_path / "killed", journal).run()
    assert digests(journal) == digests(straight)
    assert [report.groups for report in reports(journal)] == [
        report.groups for report in reports(straight)
    ]
    assert [v.version for v in versions(journal)] == list(range(7))


async def test_the_same_learner_may_run_again_after_an_error(model: Path, tmp_path: Path):
    config = settings(model, steps=2)
    journal = MemoryJournal()
    add_groups(journal, range(8))
    journal.before_complete = fail_at_step(2)
    part = learner(config, tmp_path, journal)
    with pytest.raises(JournalError):
        await part.run()
    assert "the power went" in part.status().last_error
    journal.before_complete = lambda _: None
    await part.run()
    assert digests(journal) == digests(await trained(config, tmp_path / "straight", groups=8))


async def test_groups_that_no_step_may_use_are_discarded_at_once(model: Path, tmp_path: Path):
    config = settings(model, steps=2, max_staleness=0)
    journal = MemoryJournal()
    gone = journal.add(*(failed(50, index, size=4) for index in range(4)))
    add_groups(journal, range(4))
    add_groups(journal, range(4, 5))
    part = learner(config, tmp_path, journal)
    running = asyncio.create_task(part.run())
    await journal.until(lambda: len(journal.all(GroupDiscarded)) == 2)
    await part.stop()
    await running
    assert discarded(journal) == [("g50", "failed", 1), ("g4", "stale", 6)]
    assert set(gone) <= journal.finished


async def test_a_run_whose_groups_all_fail_for_long_ends_and_says_why(model: Path, tmp_path: Path):
    journal = MemoryJournal()
    part = learner(settings(model, failure_timeout_s=0.2), tmp_path, journal)

    async def fail(numbers: range) -> None:
        journal.add(*(failed(group, index, size=4) for group in numbers for index in range(4)))
        await journal.tell()

    async def until_discarded(groups: int) -> None:
        await journal.until(lambda: len(journal.all(GroupDiscarded)) == groups)

    await fail(range(50, 54))
    running = asyncio.create_task(part.run())
    await until_discarded(4)
    await asyncio.sleep(0.3)
    add_groups(journal, range(1, 2))
    await fail(range(60, 64))
    await until_discarded(8)
    await asyncio.sleep(0.3)
    assert not running.done()
    await fail(range(64, 65))
    with pytest.raises(LearnerError, match="all 5 failed, the last because: the child died"):
        async with asyncio.timeout(30.0):
            await running


async def test_stopping_leaves_a_checkpoint_from_which_the_run_goes_on(model: Path, tmp_path: Path):
    config = settings(model)
    journal = MemoryJournal()
    add_groups(journal, range(18))
    part = learner(config, tmp_path, journal)
    running = asyncio.create_task(part.run())
    await journal.until(lambda: part.status().waits_for == "complete groups (2 of 4)")
    await part.stop()
    await running
    checkpoints = [each for each in journal.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [each.step for each in checkpoints] == [3, 4]
    add_groups(journal, range(18, 24))
    journal.evict([s for report in reports(journal) for g in report.groups for s in g.sequences])
    await learner(config, tmp_path, journal).run()
    assert digests(journal) == digests(await trained(config, tmp_path / "straight"))


async def test_the_newest_version_of_a_stopped_run_is_scored_and_the_run_goes_on_as_before(
    model: Path, tmp_path: Path
):
    config = settings(model, guard={"action": "none"})
    journal = MemoryJournal()
    add_groups(journal, range(12))
    for groups in (range(12, 12), range(12, 24)):
        add_groups(journal, groups)
        part = learner(config, tmp_path, journal)
        running = asyncio.create_task(part.run())
        waits = "complete groups (0 of 4)"
        await journal.until(lambda: part.status().waits_for == waits or running.done())  # noqa: B023
        await part.stop()
        await running
    due = [(each.version, each.is_milestone) for each in versions(journal) if each.kept]
    assert due == [(0, False), (3, True), (4, False), (6, False)]
    first, again = (each for each in versions(journal) if each.version == 3)
    assert msgspec.structs.replace(first, kept=True, is_milestone=True) == again
    assert digests(journal) == digests(await trained(config, tmp_path / "straight"))
    unscored = await unscored_version(journal, config)
    assert unscored is not None
    assert unscored.version == 0
    for number in (0, 3):
        scored = Evaluation(version=number, scores=(), errors=0, wall_s=1.0)
        journal.add(scored)
        if number:
            break
        found = await unscored_version(journal, config)
        assert found is not None
        assert (found.version, found.is_milestone) == (3, True)
    found = await unscored_version(journal, config)
    assert found is not None
    assert found.version == 4


async def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(model: Path, tmp_path: Path):
    config = settings(model)
    journal = MemoryJournal()
    add_groups(journal, range(24))
    journal.before_complete = fail_at_step(6)
    config_often = settings(model, checkpoint_every=2)
    with pytest.raises(JournalError):
        await learner(config_often, tmp_path, journal).run()
    journal.before_complete = lambda _: None
    (tmp_path / "checkpoints/step_4/__0_0.distcp").write_bytes(b"half")
    early = [s for report in reports(journal)[:2] for g in report.groups for s in g.sequences]
    journal.evict(early)
    await learner(config_often, tmp_path, journal).run()
    assert digests(journal) == digests(await trained(config, tmp_path / "straight"))


async def test_without_any_checkpoint_the_run_is_taken_again_from_version_0(
    model: Path, tmp_path: Path
):
    config = settings(model)
    journal = MemoryJournal()
    add_groups(journal, range(24))
    journal.before_complete = fail_at_step(5)
    with pytest.raises(JournalError):
        await learner(config, tmp_path, journal).run()
    journal.before_complete = lambda _: None
    shutil.rmtree(tmp_path / "checkpoints")
    await learner(config, tmp_path, journal).run()
    assert digests(journal) == digests(await trained(config, tmp_path / "straight"))


async def test_repeated_steps_with_other_weights_are_refused(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=2, checkpoint_every=9), tmp_path, groups=8)
    shutil.rmtree(tmp_path / "checkpoints")
    other = settings(model, steps=3, max_grad_norm=1e-3)
    with pytest.raises(LearnerError, match=r"step 1, repeated from version 0, reached weights"):
        await learner(other, tmp_path, journal).run()
    assert len(reports(journal)) == 2


async def test_steps_of_another_machine_are_repeated_to_rounding(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=2, checkpoint_every=9), tmp_path, groups=12)
    shutil.rmtree(tmp_path / "checkpoints")
    elsewhere = MemoryJournal()
    for message in cast("list[Message]", journal.all(object)):
        elsewhere.add(
            msgspec.structs.replace(message, arithmetic="torch 1 on a slide rule")
            if isinstance(message, StepReport)
            else message
        )
    elsewhere.finished = journal.finished
    # Another norm of the gradient stands for the rounding of another machine.
    other = settings(model, steps=3, max_grad_norm=1e-3, checkpoint_every=2)
    await learner(other, tmp_path, elsewhere).run()
    third = reports(elsewhere)[2]
    assert third.arithmetic.startswith("torch 2")
    checkpoints = [each for each in elsewhere.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [each.step for each in checkpoints] == [2, 2, 3]
    again = Trainer(other, model, checkpoint=tmp_path / checkpoints[1].path)
    assert weights_digest(again, other) == digests(journal)[1]


async def test_steps_whose_rollouts_were_evicted_are_named(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=2, checkpoint_every=9), tmp_path, groups=8)
    shutil.rmtree(tmp_path / "checkpoints")
    journal.evict(reports(journal)[0].groups[0].sequences)
    with pytest.raises(LearnerError, match=r"step 1 cannot be repeated: .*raise store.retain_gb"):
        await learner(settings(model, steps=3), tmp_path, journal).run()


async def test_another_model_in_place_of_the_runs_own_is_refused(model: Path, tmp_path: Path):
    moved = tmp_path / "model"
    shutil.copytree(model, moved)
    journal = await trained(settings(moved, steps=0 + 1), tmp_path / "run", groups=4)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.rmtree(tmp_path / "run" / "versions")
    shutil.rmtree(moved)
    small_model(moved, seed=1)
    with pytest.raises(
        CheckpointError, match=r"version 0 is missing or was changed, and .* another"
    ):
        await learner(settings(moved, steps=2), tmp_path / "run", journal).run()


async def test_version_0_comes_back_from_its_own_folder_when_the_model_changed(
    model: Path, tmp_path: Path
):
    moved = tmp_path / "model"
    shutil.copytree(model, moved)
    config = settings(moved, steps=2)
    journal = await trained(config, tmp_path / "run", groups=8)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    shutil.rmtree(moved)
    small_model(moved, seed=1)
    await learner(config, tmp_path / "run", journal).run()
    assert len(reports(journal)) == 2


async def test_a_loss_that_is_not_finite_ends_the_step_and_publishes_nothing(
    model: Path, tmp_path: Path
):
    journal = MemoryJournal()
    add_groups(journal, range(3))
    bad = rollout(3, 0, size=4)
    tokens = msgspec.structs.replace(bad.tokens, logprobs=b"\x00\x00\xc0\x7f" * bad.tokens.count)
    journal.add(tool_task("ls", task_id="t3"), msgspec.structs.replace(bad, tokens=tokens))
    journal.add(*(rollout(3, index, size=4, passed=False) for index in range(1, 4)))
    words = r"step 1 on groups g0, g1, g2, g3: loss nan .* nothing was published"
    with pytest.raises(LearnerError, match=words):
        await learner(settings(model), tmp_path, journal).run()
    assert [version.version for version in versions(journal)] == [0]
    assert journal.finished == set()
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["v_0"]


async def test_only_weights_that_can_still_be_needed_stay_on_disk(model: Path, tmp_path: Path):
    config = settings(model, steps=9, max_staleness=1)
    journal = MemoryJournal()
    strangers = [tmp_path / "versions" / name for name in ("v_mine", "v_1.5", "v_")]
    for stranger in strangers:
        stranger.mkdir(parents=True)
    for step in range(9):
        add_groups(journal, range(4 * step, 4 * step + 4), version=step)
    await learner(config, tmp_path, journal).run()
    for stranger in strangers:
        stranger.rmdir()
    kept = {version.version for version in versions(journal) if version.kept}
    assert kept == {0, 4, 8, 9}
    there = {int(path.name.removeprefix("v_")) for path in (tmp_path / "versions").iterdir()}
    assert there == kept | {6, 7}


async def test_a_missing_folder_of_the_current_version_is_written_again(
    model: Path, tmp_path: Path
):
    config = settings(model, steps=2)
    journal = await trained(config, tmp_path, groups=8)
    shutil.rmtree(tmp_path / "versions" / "v_2")
    await learner(config, tmp_path, journal).run()
    assert version_digest(tmp_path / "versions" / "v_2", "full") == digests(journal)[-1]


async def test_a_batch_without_anything_to_learn_is_a_step_with_the_same_weights(
    model: Path, tmp_path: Path
):
    journal = MemoryJournal()
    equal(journal, range(4))
    await learner(settings(model, steps=1), tmp_path, journal).run()
    assert digests(journal) == [versions(journal)[0].digest]


def equal(journal: MemoryJournal, numbers: range) -> None:
    """Append groups in which every rollout passed."""
    for number in numbers:
        journal.add(tool_task("ls", task_id=f"t{number}"))
        journal.add(*(rollout(number, index, size=4) for index in range(4)))


def discarded(journal: MemoryJournal) -> list[tuple[str, str, int]]:
    return [
        (each.group_id, each.reason, each.groups_consumed)
        for each in journal.all(GroupDiscarded)
        if isinstance(each, GroupDiscarded)
    ]


async def test_groups_that_were_replaced_before_a_restart_count_towards_the_steps_bound(
    model: Path, tmp_path: Path
):
    config = settings(model, steps=2, groups_per_step=2, refill_batches=1)
    journal = MemoryJournal()
    equal(journal, range(5))
    part = learner(config, tmp_path, journal)
    running = asyncio.create_task(part.run())
    # Two are replaced and two join the first step; one of the second step's two is replaced.
    await journal.until(lambda: len(discarded(journal)) == 3)
    await part.stop()
    await running
    equal(journal, range(5, 8))
    await learner(config, tmp_path, journal).run()
    assert discarded(journal) == [
        ("g0", "zero_variance", 1),
        ("g1", "zero_variance", 2),
        ("g4", "zero_variance", 5),
        ("g5", "zero_variance", 6),
    ]
    assert [[group.group_id for group in each.groups] for each in reports(journal)] == [
        ["g2", "g3"],
        ["g6", "g7"],
    ]
    assert {group.use for report in reports(journal) for group in report.groups} == {"nothing"}


async def test_the_status_says_how_far_the_batch_is(model: Path, tmp_path: Path):
    journal = MemoryJournal()
    add_groups(journal, range(3))
    part = learner(settings(model), tmp_path, journal)
    running = asyncio.create_task(part.run())
    await journal.until(lambda: part.status().waits_for == "complete groups (3 of 4)")
    status = part.status()
    assert (status.part, status.mailbox) == ("learner", 12)
    assert (status.policy_version, status.done) == (0, 0)
    await part.stop()
    await running


async def test_metrics_are_named_as_in_other_frameworks(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=1), tmp_path, groups=4)
    metrics = reports(journal)[0].metrics
    assert metrics["critic/score/mean"] == metrics["critic/rewards/mean"] == 0.5
    assert metrics["frac_reward_zero_std"] == 0.5
    assert [metrics[f"groups/{kind}"] for kind in ("all_fail", "all_pass", "mixed")] == [1, 1, 2]
    assert metrics["num_turns/mean"] == 2.0
    assert metrics["prompt_length/mean"] == 5.5
    assert metrics["response_length/mean"] == (3 + 4 + 5 + 6) / 4
    assert (metrics["response_length/min"], metrics["response_length/max"]) == (3, 6)
    assert metrics["training/off_policy/version_lag_max"] == 0
    assert metrics["critic/advantages/mean"] == pytest.approx(0, abs=1e-6)
    assert metrics["actor/lr"] == pytest.approx(2e-3)
    assert metrics.keys() >= {
        "actor/pg_loss", "actor/entropy", "actor/grad_norm", "actor/ppo_kl", "actor/pg_clipfrac",
        "timing_s/step", "timing_s/update_actor", "timing_s/wait", "perf/throughput",
        "training/rollout_probs_diff_mean", "training/off_policy/version_lag_mean",
    }  # fmt: skip


async def test_a_replay_from_version_0_reaches_every_recorded_digest(model: Path, tmp_path: Path):
    config = settings(model)
    journal = await trained(config, tmp_path)
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    steps = [step async for step in replay(config, tmp_path, history)]
    assert [(step.step, step.equal) for step in steps] == [(n, True) for n in range(1, 7)]


async def test_a_replay_from_a_checkpoint_takes_the_steps_beyond_it(model: Path, tmp_path: Path):
    config = settings(model)
    journal = await trained(config, tmp_path)
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    steps = [step async for step in replay(config, tmp_path, history, from_checkpoint=3)]
    assert [(step.step, step.equal) for step in steps] == [(n, True) for n in range(4, 7)]
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 5, or .*; it has: 3, 6"):
        await anext(replay(config, tmp_path, history, from_checkpoint=5))


async def test_a_replay_with_other_settings_says_that_it_differs(model: Path, tmp_path: Path):
    journal = await trained(settings(model, steps=2), tmp_path, groups=8)
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    other = settings(model, steps=2, imitation={"weight": 7.0})
    steps = [step async for step in replay(other, tmp_path, history)]
    assert [step.equal for step in steps] == [False, False]


async def test_a_run_that_is_resumed_for_more_steps_takes_the_recorded_ones_at_their_own_rates(
    model: Path, tmp_path: Path
):
    journal = await trained(settings(model, steps=2, schedule="linear"), tmp_path, groups=16)
    first = digests(journal)
    shutil.rmtree(tmp_path / "checkpoints")
    longer = settings(model, steps=4, schedule="linear")
    await learner(longer, tmp_path, journal).run()
    assert digests(journal)[:2] == first
    # Two steps of two at 2e-3 and half of it; then the third and the fourth of four.
    rates = [report.metrics["actor/lr"] for report in reports(journal)]
    assert rates == pytest.approx([2e-3, 1e-3, 1e-3, 5e-4])
    imitated = [report.metrics["actor/imitation_lr"] for report in reports(journal)]
    assert imitated == pytest.approx([1e-3, 5e-4, 5e-4, 2.5e-4])
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    steps = [step async for step in replay(longer, tmp_path, history)]
    assert [(step.step, step.equal) for step in steps] == [(n, True) for n in range(1, 5)]


async def test_the_reference_of_a_hopeless_task_becomes_more_likely(model: Path, tmp_path: Path):
    config = settings(
        model, steps=3, groups_per_step=1, imitation={"replay_per_step": 0}, learning_rate=1e-2
    )
    journal = MemoryJournal()
    add_groups(journal, range(1))
    for number in (4, 8):
        journal.add(
            *(
                msgspec.structs.replace(rollout(number, i, size=4, passed=False), task_id="t0")
                for i in range(4)
            )
        )
    await learner(config, tmp_path, journal).run()
    losses = [report.metrics["actor/imitation_loss"] for report in reports(journal)]
    assert all(report.groups[0].use == "imitation" for report in reports(journal))
    assert losses == sorted(losses, reverse=True)


async def test_a_replay_buffer_keeps_the_newest_references(model: Path, tmp_path: Path):
    config = settings(model, steps=6, imitation={"replay_size": 2, "replay_per_step": 2})
    await trained(config, tmp_path)
    state = msgspec.json.decode((tmp_path / "checkpoints/step_6/trainer_state.json").read_bytes())
    assert [ids[2] for ids, _ in state["replay"]] == [16, 20]


async def test_it_runs_on_the_real_journal_and_goes_on_after_it_was_reopened(
    model: Path, tmp_path: Path
):
    memory = MemoryJournal()
    add_groups(memory, range(16))
    found: list[StepReport] = []
    for steps in (2, 4):
        journal = Journal.open(tmp_path / "store", map_size_bytes=1 << 28)
        store = LocalStore(journal)
        if steps == 2:
            await store.append(memory.as_append())
        await learner(settings(model, steps=steps), tmp_path, store).run()
        found = [decode_as(each, StepReport) for each in await store.scan("step_report")]
        journal.close()
    straight = await trained(settings(model, steps=4), tmp_path / "straight", groups=16)
    assert [report.weights_digest for report in found] == digests(straight)
