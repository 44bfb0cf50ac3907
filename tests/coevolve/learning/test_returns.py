"""A learner that returns to an earlier version, with canary scores given by the test.

Seven steps of two groups. Of 16 canaries version 0 passes 4, version 1 all, version 2 all but one
and version 3 two, so step 5 returns to version 1.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.commands.replay import replay
from coevolve.environments.tools.observer import ReferenceSupervision
from coevolve.learning.history import History
from coevolve.learning.optimizers import TEACHERS
from coevolve.models.weight_files import version_digest
from protocols.config import EvaluatorConfig, RunConfig
from protocols.errors import CheckpointError, DeliveryError, JournalError
from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    GroupDiscarded,
    OldVersionServed,
    PolicyRegressed,
    PolicyVersion,
    Returned,
    StepReport,
    TaskScore,
    WeightsFormat,
    WeightSyncAlarm,
)
from tests.coevolve.learning.test_learner import digests, learner, reports, versions
from tests.coevolve.learning.test_learner import settings as plain_settings
from tests.learning import (
    MemoryJournal,
    ReferenceRenderer,
    add_groups,
    decode_record,
    moments,
    small_model,
)

CANARIES = 16

PASSED = {0: 4, 1: 16, 2: 15, 3: 2, 5: 16, 6: 16}
"""Version -> number of canaries that it passes."""

Undisturbed = Mapping[WeightsFormat, tuple[Path, MemoryJournal]]

BACK = Returned(to_version=1, rate_factor=0.5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Return run directory and journal of a learner that is not killed."""
    found: dict[WeightsFormat, tuple[Path, MemoryJournal]] = {}
    for train in ("full", "lora"):
        folder = tmp_path_factory.mktemp(train)
        found[train] = folder, asyncio.run(taken(settings(model, train), folder))
    return found


def settings(model: Path, train: WeightsFormat = "full", **learner: Any) -> RunConfig:
    guard = {"every": 1, "tasks": CANARIES, **learner.pop("guard", {})}
    defaults = {"steps": 7, "groups_per_step": 2, "max_staleness": 1, "checkpoint_every": 99}
    config = plain_settings(model, train, **{**defaults, "guard": guard, **learner})
    return msgspec.structs.replace(config, evaluator=EvaluatorConfig(every=99))


def canaries(version: int, passed: int) -> CanaryScores:
    return CanaryScores(
        version=version,
        scores=tuple(
            TaskScore(task_id=f"c{number}", turns_passed=int(number < passed), turns_total=1)
            for number in range(CANARIES)
        ),
        errors=0,
    )


def scored_late(
    journal: MemoryJournal, passed: Mapping[int, int]
) -> Callable[[Sequence[Message]], None]:
    """Let each version's scores arrive during the step after it."""

    def score(outputs: Sequence[Message]) -> None:
        for output in outputs:
            if isinstance(output, StepReport) and output.step - 1 in passed:
                journal.add(canaries(output.step - 1, passed[output.step - 1]))

    return score


def prepared(passed: Mapping[int, int] = PASSED) -> MemoryJournal:
    """Return groups: four steps by the version before each, two by version 4, four by version 5."""
    journal = MemoryJournal()
    for version in range(4):
        add_groups(journal, range(2 * version, 2 * version + 2), version=version)
    add_groups(journal, range(8, 10), version=4)
    add_groups(journal, range(10, 14), version=5)
    journal.before_complete = scored_late(journal, passed)
    return journal


async def taken(
    config: RunConfig, run_dir: Path, passed: Mapping[int, int] = PASSED
) -> MemoryJournal:
    journal = prepared(passed)
    await learner(config, run_dir, journal).run()
    return journal


def regressions(journal: MemoryJournal) -> list[PolicyRegressed]:
    return [e for e in journal.all(PolicyRegressed) if isinstance(e, PolicyRegressed)]


def discards(journal: MemoryJournal) -> list[tuple[str, str, int]]:
    return [
        (each.group_id, each.reason, each.groups_consumed)
        for each in journal.all(GroupDiscarded)
        if isinstance(each, GroupDiscarded)
    ]


def rates(journal: MemoryJournal) -> list[tuple[float, float]]:
    return [
        (report.metrics["actor/lr"], report.metrics["actor/imitation_lr"])
        for report in reports(journal)
    ]


def comparable(journal: MemoryJournal) -> list[tuple[object, ...]]:
    """Return everything about the steps except their durations."""
    return [
        (
            report.step,
            report.groups,
            report.weights_digest,
            report.groups_consumed,
            report.returned,
            {
                name: value
                for name, value in report.metrics.items()
                if not name.startswith(("timing_s/", "perf/throughput", "delivery/"))
            },
        )
        for report in reports(journal)
    ]


@pytest.mark.parametrize("train", ["full", "lora"])
def test_a_policy_that_collapses_on_the_canaries_goes_back_to_the_best_version(
    undisturbed: Undisturbed, train: WeightsFormat
):
    run_dir, journal = undisturbed[train]
    assert [report.returned for report in reports(journal)] == [None] * 4 + [BACK, None, None]
    back = reports(journal)[4]
    assert (back.step, back.groups, back.groups_consumed) == (5, (), 8)
    made = {version.version: version for version in versions(journal)}
    assert back.weights_digest == made[5].digest == made[1].digest
    assert len({made[number].digest for number in (0, 1, 2, 3, 4, 6, 7)}) == 7
    (weights,) = (run_dir / made[5].path).glob("*.safetensors")
    assert version_digest(weights.parent, made[1].format) == made[1].digest
    assert made[5].probe == made[1].probe


def test_the_loss_is_recorded_once_together_with_the_step_and_its_version(
    undisturbed: Undisturbed,
):
    _, journal = undisturbed["full"]
    loss = PolicyRegressed(
        version=3,
        score=2 / 16,
        best_version=1,
        best_score=1.0,
        lost=14,
        gained=0,
        canaries=16,
        chance=2**-14,
        action="return",
    )
    assert regressions(journal) == [loss]
    records = [decode_record(record) for record in journal.as_append().records]
    position = records.index(loss)
    report, version = records[position + 1 : position + 3]
    assert isinstance(report, StepReport)
    assert isinstance(version, PolicyVersion)
    assert (report.step, version.version) == (5, 5)


def test_groups_that_an_abandoned_version_wrote_are_discarded(undisturbed: Undisturbed):
    _, journal = undisturbed["full"]
    assert discards(journal) == [("g8", "abandoned", 9), ("g9", "abandoned", 10)]
    assert [[group.group_id for group in each.groups] for each in reports(journal)[5:]] == [
        ["g10", "g11"],
        ["g12", "g13"],
    ]
    assert [report.groups_consumed for report in reports(journal)] == [2, 4, 6, 8, 8, 12, 14]


async def test_all_later_steps_have_a_lower_rate(
    undisturbed: Undisturbed, model: Path, tmp_path: Path
):
    _, journal = undisturbed["full"]
    assert rates(journal) == [(2e-3, 1e-3)] * 4 + [(1e-3, 5e-4)] * 3
    journal = await taken(settings(model, guard={"rate_factor": 0.125}), tmp_path)
    assert rates(journal)[3:6] == [(2e-3, 1e-3), (2.5e-4, 1.25e-4), (2.5e-4, 1.25e-4)]


async def test_a_return_forgets_momentum_and_keeps_the_references(model: Path, tmp_path: Path):
    journal = await taken(settings(model, checkpoint_every=4), tmp_path / "four")
    other = await taken(settings(model, checkpoint_every=5), tmp_path / "five")
    assert digests(journal) == digests(other)
    before, after = tmp_path / "four/checkpoints/step_4", tmp_path / "five/checkpoints/step_5"
    assert all(moments(before, teacher) for teacher in TEACHERS)
    assert not any(moments(after, teacher) for teacher in TEACHERS)
    states = [
        msgspec.json.decode((folder / "trainer_state.json").read_bytes())
        for folder in (before, after)
    ]
    assert [state["rate_factor"] for state in states] == [1.0, 0.5]
    assert states[0]["replay"] == states[1]["replay"] != []


async def test_a_second_return_lowers_the_rate_again(model: Path, tmp_path: Path):
    journal = prepared({**PASSED, 6: 0})
    add_groups(journal, range(14, 16), version=6)
    add_groups(journal, range(16, 18), version=8)
    await learner(settings(model, steps=9), tmp_path, journal).run()
    # Version 5 has the weights of version 1 and passes as many canaries; it is the newer of both.
    again = Returned(to_version=5, rate_factor=0.25)
    found = {report.step: report.returned for report in reports(journal) if report.returned}
    assert found == {5: BACK, 8: again}
    made = {version.version: version.digest for version in versions(journal)}
    assert made[8] == made[5] == made[1] != made[9]
    assert [(each.version, each.best_version) for each in regressions(journal)] == [(3, 1), (6, 5)]
    assert rates(journal)[7:] == [(5e-4, 2.5e-4)] * 2
    assert discards(journal)[2:] == [("g14", "abandoned", 15), ("g15", "abandoned", 16)]


def fallible(journal: MemoryJournal, step: int) -> None:
    """Make the write of a step fail, whether it trained or returned."""
    score = journal.before_complete

    def fail(outputs: Sequence[Message]) -> None:
        if any(isinstance(each, StepReport) and each.step == step for each in outputs):
            raise JournalError("the power went")
        score(outputs)

    journal.before_complete = journal.before_append = fail


@pytest.mark.parametrize(
    ("train", "checkpoint_every", "step"),
    [
        ("full", 99, 5),
        ("full", 99, 6),
        ("full", 99, 7),
        ("full", 2, 5),
        ("full", 2, 7),
        ("full", 5, 6),
        ("lora", 2, 5),
        ("lora", 5, 6),
        ("lora", 99, 7),
    ],
)
async def test_a_learner_that_dies_at_a_return_or_after_it_goes_on_bit_by_bit(
    undisturbed: Undisturbed,
    model: Path,
    tmp_path: Path,
    train: WeightsFormat,
    checkpoint_every: int,
    step: int,
):
    config = settings(model, train, checkpoint_every=checkpoint_every)
    _, straight = undisturbed[train]
    journal = prepared()
    score = journal.before_complete
    fallible(journal, step)
    with pytest.raises(JournalError, match="the power went"):
        await learner(config, tmp_path, journal).run()
    assert len(reports(journal)) == step - 1
    journal.before_complete, journal.before_append = score, lambda _: None
    await learner(config, tmp_path, journal).run()
    assert comparable(journal) == comparable(straight)
    assert [each.digest for each in versions(journal)] == [
        each.digest for each in versions(straight)
    ]
    assert regressions(journal) == regressions(straight)
    assert discards(journal) == discards(straight)


@pytest.mark.parametrize("from_checkpoint", [None, 3, 6])
async def test_a_return_is_taken_again_by_a_replay(
    model: Path, tmp_path: Path, from_checkpoint: int | None
):
    config = settings(model, checkpoint_every=3)
    journal = await taken(config, tmp_path)
    checkpoints = [each for each in journal.all(Checkpoint) if isinstance(each, Checkpoint)]
    assert [each.step for each in checkpoints] == [3, 6, 7]
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    steps = [
        step async for step in replay(config, tmp_path, history, from_checkpoint=from_checkpoint)
    ]
    first = (from_checkpoint or 0) + 1
    assert [(step.step, step.equal) for step in steps] == [(n, True) for n in range(first, 8)]


async def test_weights_that_a_return_needs_stay_on_disk(
    undisturbed: Undisturbed, model: Path, tmp_path: Path
):
    journal = await taken(settings(model, max_staleness=0, steps=5), tmp_path)
    # By step 4 all before version 2 are old; version 0 is evaluated, version 1 the best.
    assert reports(journal)[-1].returned == BACK
    there = {path.name for path in (tmp_path / "versions").iterdir()}
    assert there == {"v_0", "v_1", "v_2", "v_3", "v_4", "v_5"}

    run_dir, _ = undisturbed["full"]
    there = {path.name for path in (run_dir / "versions").iterdir()}
    # By step 7 all before version 4 are old; version 1 was returned to.
    assert there == {"v_0", "v_1", "v_4", "v_5", "v_6", "v_7"}


async def test_weights_that_the_evaluator_has_yet_to_score_stay_although_their_version_was_left(
    model: Path, tmp_path: Path
):
    journal = prepared()
    add_groups(journal, range(14, 16), version=7)
    add_groups(journal, range(16, 18), version=8)
    await learner(settings(model, steps=9), tmp_path, journal).run()
    # By step 9 all before version 6 are old. Versions 2 to 4 are abandoned, and only the scores of
    # 4 are missing: the slow evaluator will still have to serve it.
    there = {path.name for path in (tmp_path / "versions").iterdir()}
    assert there == {"v_0", "v_1", "v_4", "v_6", "v_7", "v_8", "v_9"}


async def test_no_step_goes_back_while_an_engine_serves_something_else(model: Path, tmp_path: Path):
    journal = prepared()
    score = journal.before_complete

    def alarm(outputs: Sequence[Message]) -> None:
        score(outputs)
        if any(isinstance(each, StepReport) and each.step == 4 for each in outputs):
            reason = OldVersionServed(served=2, evidence="statement")
            journal.add(WeightSyncAlarm(engine="rollout-0", version=3, reason=reason))

    journal.before_complete = alarm
    with pytest.raises(DeliveryError, match="it serves version 2 instead"):
        await learner(settings(model), tmp_path, journal).run()
    assert [report.step for report in reports(journal)] == [1, 2, 3, 4]
    assert regressions(journal) == []


async def test_a_return_to_weights_that_are_gone_is_refused(model: Path, tmp_path: Path):
    config = settings(model)
    journal = prepared()
    fallible(journal, 5)
    with pytest.raises(JournalError):
        await learner(config, tmp_path, journal).run()
    journal.before_append = lambda _: None
    shutil.rmtree(tmp_path / "versions/v_1")
    words = r"v_1: step 5 returns to version 1, whose weights are missing or were changed"
    with pytest.raises(CheckpointError, match=words):
        await learner(config, tmp_path, journal).run()
    assert len(reports(journal)) == 4
    assert regressions(journal) == []


async def test_a_guard_that_warns_records_the_loss_and_trains_on(model: Path, tmp_path: Path):
    config = settings(model, steps=6, guard={"action": "warn"})
    journal = prepared({**PASSED, 4: 2})
    await learner(config, tmp_path, journal).run()
    assert [(each.version, each.action) for each in regressions(journal)] == [
        (3, "warn"),
        (4, "warn"),
    ]
    assert [report.returned for report in reports(journal)] == [None] * 6
    assert rates(journal) == [(2e-3, 1e-3)] * 6
    assert discards(journal) == []


async def test_a_guard_that_is_restarted_does_not_repeat_its_warning(model: Path, tmp_path: Path):
    config = settings(model, steps=5, guard={"action": "warn"})
    journal = prepared()
    await learner(config, tmp_path, journal).run()
    assert len(regressions(journal)) == 1
    await learner(settings(model, steps=6, guard={"action": "warn"}), tmp_path, journal).run()
    assert len(regressions(journal)) == 1


async def test_without_a_guard_scores_change_nothing(model: Path, tmp_path: Path):
    config = settings(model, steps=6, guard={"action": "none"})
    journal = await taken(config, tmp_path)
    assert regressions(journal) == []
    assert [report.returned for report in reports(journal)] == [None] * 6


async def test_a_policy_that_keeps_its_canaries_is_left_alone(model: Path, tmp_path: Path):
    guarded = await taken(settings(model, steps=6), tmp_path / "on", dict.fromkeys(range(6), 12))
    free = await taken(settings(model, steps=6, guard={"action": "none"}), tmp_path / "off")
    assert regressions(guarded) == []
    assert digests(guarded) == digests(free)
