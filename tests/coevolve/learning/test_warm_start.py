from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.commands.replay import replay
from coevolve.environments.tools.observer import ReferenceSupervision
from coevolve.learning.history import History
from coevolve.learning.warm_start import SkillAttempts, WarmStart
from coevolve.rollouts.scored_versions import unscored_version
from protocols.config import (
    DeliveryConfig,
    EvaluatorConfig,
    LearnerConfig,
    PolicyConfig,
    RolloutConfig,
    RunConfig,
)
from protocols.errors import JournalError
from protocols.journal import Message
from protocols.learner_config import WarmStartConfig
from protocols.learning import (
    GroupDiscarded,
    PolicyVersion,
    StepReport,
    TrainedGroup,
    WarmStartEnded,
)
from protocols.rollouts import RolloutRequest
from tests.coevolve.learning.learners import learner, reports
from tests.fakes import tool_task
from tests.learning import MemoryJournal, ReferenceRenderer, rollout, small_model

SKILLS = ("cp", "ls", "mv")
SIZE = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


def settings(model: Path, warm_start: dict[str, object], **learner: object) -> RunConfig:
    return RunConfig(
        name="test",
        seed=3,
        policy=PolicyConfig(model=str(model), train="full"),
        rollout=RolloutConfig(group_size=SIZE),
        evaluator=EvaluatorConfig(every=100),
        delivery=DeliveryConfig(sampler_tolerance=1.0),  # no engine sampled these rollouts
        learner=msgspec.convert(
            {
                "steps": 5,
                "groups_per_step": 3,
                "max_staleness": 50,
                "checkpoint_every": 2,
                "recover_every": 0,
                "refill_batches": 0,
                "imitation": {"replay_per_step": 2, "replay_size": 4},
                "guard": {"action": "none"},
                "warm_start": warm_start,
                **learner,
            },
            LearnerConfig,
        ),
    )


def opened(*skills: str) -> MemoryJournal:
    """A journal of a run that opened with a task for each skill."""
    journal = MemoryJournal()
    journal.add(*(tool_task(skill, task_id=f"t{50 + n}") for n, skill in enumerate(skills)))
    journal.add(
        RolloutRequest(
            group_id="g0",
            group=0,
            index=0,
            group_size=SIZE,
            task_id="t50",
            seed=0,
            policy_version_at_least=0,
        )
    )
    return journal


def attempt(journal: MemoryJournal, number: int, skill: str, wins: int, *, imitable: bool = True):
    """Append the task ``t{number}`` of a skill, and a group on it."""
    journal.add(tool_task(skill, task_id=f"t{number}"))
    journal.add(
        *(
            rollout(number, index, size=SIZE, passed=index < wins, imitable=imitable)
            for index in range(SIZE)
        )
    )


def rising(steps: int = 5) -> MemoryJournal:
    """Three groups a step, one for each skill; ``ls`` succeeds from step 2 on, ``cp`` from 3 on."""
    journal = opened(*SKILLS)
    for step in range(steps):
        for number, skill in enumerate(SKILLS):
            wins = {"ls": step >= 1, "cp": step >= 2}.get(skill, False)
            attempt(journal, 3 * step + number, skill, int(wins))
    return journal


async def trained(config: RunConfig, run_dir: Path, journal: MemoryJournal) -> MemoryJournal:
    await learner(config, run_dir, journal).run()
    return journal


def stages(journal: MemoryJournal) -> list[str]:
    return [each.stage for each in reports(journal)]


def ends(journal: MemoryJournal) -> list[tuple[int, WarmStartEnded]]:
    found = [(each.step, each.warm_start_ended) for each in reports(journal)]
    return [(step, ended) for step, ended in found if ended is not None]


def uses(journal: MemoryJournal) -> list[list[str]]:
    return [[group.use for group in each.groups] for each in reports(journal)]


async def test_references_alone_teach_until_most_skills_succeed_sometimes(
    model: Path, tmp_path: Path
):
    config = settings(model, {"steps": 4, "attempts": 4})
    journal = await trained(config, tmp_path, rising())
    assert stages(journal) == ["warm_start"] * 3 + ["loop"] * 2
    assert ends(journal) == [(3, WarmStartEnded(reason="skills", ready=2, skills=3))]
    assert uses(journal)[:3] == [["imitation"] * 3] * 3
    assert uses(journal)[3:] == [["policy_gradient", "policy_gradient", "imitation"]] * 2
    warm, later = reports(journal)[2].metrics, reports(journal)[3].metrics
    assert (warm["stage/warm_start"], warm["stage/skills_ready"], warm["stage/skills"]) == (1, 2, 3)
    assert (later["stage/warm_start"], "stage/skills" in later) == (0, False)
    assert warm["source/objective/movement_share"] == 0 < later["source/objective/movement_share"]


async def test_the_maximum_of_steps_ends_the_stage_too(model: Path, tmp_path: Path):
    journal = await trained(settings(model, {"steps": 2, "attempts": 4}), tmp_path, rising())
    assert ends(journal) == [(2, WarmStartEnded(reason="steps", ready=1, skills=3))]
    assert stages(journal) == ["warm_start"] * 2 + ["loop"] * 3


async def test_a_run_of_fewer_steps_than_the_stage_is_a_warm_start_alone(
    model: Path, tmp_path: Path
):
    config = settings(model, {"steps": 9, "attempts": 4}, steps=2)
    journal = await trained(config, tmp_path, rising())
    assert (stages(journal), ends(journal)) == (["warm_start"] * 2, [])


async def test_without_a_warm_start_no_step_or_metric_changes(model: Path, tmp_path: Path):
    without = await trained(settings(model, {}), tmp_path / "a", rising())
    assert stages(without) == ["loop"] * 5
    assert not [name for name in reports(without)[0].metrics if name.startswith("stage/")]
    assert uses(without)[1] == ["imitation", "policy_gradient", "imitation"]


async def test_the_version_at_the_end_of_the_stage_is_scored_and_its_weights_stay(
    model: Path, tmp_path: Path
):
    config = settings(model, {"steps": 4, "attempts": 4}, steps=14, max_staleness=0)
    journal = rising(0)
    for number in range(42):  # max_staleness is 0, so each is of the newest version
        journal.add(tool_task("ls", task_id=f"t{number}"))
        version = number // 3
        journal.add(
            *(
                rollout(number, index, size=SIZE, passed=index < 1, version=version)
                for index in range(SIZE)
            )
        )
    await trained(config, tmp_path, journal)
    assert stages(journal).count("warm_start") == 4
    found = [each for each in journal.all(PolicyVersion) if isinstance(each, PolicyVersion)]
    assert [each.version for each in found if each.is_milestone] == [4]
    assert [each.version for each in found if each.kept] == [0, 4, 14]
    kept = {path.name for path in (tmp_path / "versions").iterdir()}
    assert "v_4" in kept
    assert not {"v_3", "v_5"} & kept
    first = await unscored_version(journal, config)
    assert first is not None
    assert first.version == 0


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
async def test_a_learner_that_is_killed_goes_on_in_the_same_stage(
    model: Path, tmp_path: Path, step: int
):
    config = settings(model, {"steps": 4, "attempts": 4})
    straight = await trained(config, tmp_path / "straight", rising())
    journal = rising()

    def fail(outputs: Sequence[Message]) -> None:
        if any(isinstance(each, StepReport) and each.step == step for each in outputs):
            raise JournalError("the power went")

    journal.before_complete = fail
    with pytest.raises(JournalError):
        await trained(config, tmp_path / "killed", journal)
    journal.before_complete = lambda _: None
    await trained(config, tmp_path / "killed", journal)
    assert [each.weights_digest for each in reports(journal)] == [
        each.weights_digest for each in reports(straight)
    ]
    assert (stages(journal), uses(journal)) == (stages(straight), uses(straight))
    assert ends(journal) == ends(straight)
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    again = await WarmStart.resumed(config.learner.warm_start, history)
    assert again.stage == "loop"
    assert await history.milestones() == {3}


async def test_a_replay_reaches_the_weights_of_both_stages(model: Path, tmp_path: Path):
    config = settings(model, {"steps": 4, "attempts": 4})
    journal = await trained(config, tmp_path, rising())
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    steps = [each async for each in replay(config, tmp_path, history)]
    assert [each.equal for each in steps] == [True] * 5


async def test_a_task_without_a_confirmed_reference_teaches_nothing_in_the_stage(
    model: Path, tmp_path: Path
):
    journal = opened("ls")
    for number in range(3):
        attempt(journal, number, "ls", 2, imitable=number > 0)
    attempt(journal, 3, "ls", 0, imitable=False)
    for number in range(4, 9):
        attempt(journal, number, "ls", 0)
    config = settings(model, {"steps": 2, "attempts": 16}, steps=2, refill_batches=1)
    await trained(config, tmp_path, journal)
    assert uses(journal) == [["imitation"] * 3, ["imitation"] * 3]
    gone = [each for each in journal.all(GroupDiscarded) if isinstance(each, GroupDiscarded)]
    assert [(each.task_id, each.reason) for each in gone] == [
        ("t0", "zero_variance"),
        ("t3", "zero_variance"),
    ]


def group(task_id: str, successes: int, rollouts: int = SIZE) -> TrainedGroup:
    return TrainedGroup(
        group_id=task_id,
        group=0,
        task_id=task_id,
        sequences=tuple(range(rollouts)),
        successes=successes,
        use="imitation",
    )


def fold_of(journal: MemoryJournal, **config: object) -> WarmStart:
    history = History(journal, ReferenceSupervision(ReferenceRenderer()))
    return WarmStart(msgspec.convert(config, WarmStartConfig), history)


async def test_skills_of_the_opening_count_before_any_group_attempts_them():
    journal = opened("a", "b", "c", "d", "e")
    stage = fold_of(journal, steps=9, attempts=4)
    taken = [await stage.take([group(f"t{49 + step}", 4)]) for step in range(1, 4)]
    assert [each.metrics["stage/skills_ready"] for each in taken] == [1, 2, 3]
    assert taken[-1].ended == WarmStartEnded(reason="skills", ready=3, skills=5)
    assert (taken[-1].stage, stage.stage) == ("warm_start", "loop")


async def test_a_task_of_several_skills_counts_for_each_and_one_without_for_a_common_one():
    journal = opened("a")
    journal.add(tool_task("a", "b", task_id="t1"), tool_task(task_id="t2"))
    stage = fold_of(journal, steps=9, attempts=4)
    assert (await stage.take([group("t1", 0), group("t2", 0)])).metrics["stage/skills"] == 3


async def test_a_return_to_earlier_weights_counts_as_a_step_and_forgets_the_attempts():
    journal = opened("a", "b")
    stage = fold_of(journal, steps=3, attempts=4)
    await stage.take([group("t50", 4)])
    assert (await stage.take(())).metrics["stage/skills_ready"] == 0
    assert (await stage.take([group("t51", 4)])).ended == WarmStartEnded(
        reason="steps", ready=1, skills=2
    )


@pytest.mark.parametrize(
    ("groups", "succeeds"),
    [
        ([], False),
        ([(4, 4)], False),
        ([(0, 4), (1, 4)], True),
        ([(4, 4), (0, 4), (0, 4)], False),
        ([(1, 4), (0, 3), (0, 4)], True),
        ([(1, 8), (0, 12)], False),
        ([(8, 8)], True),
    ],
)
def test_a_skill_is_judged_by_its_newest_groups_that_together_have_enough_attempts(
    groups: list[tuple[int, int]], *, succeeds: bool
):
    attempts = SkillAttempts(8)
    for each in groups:
        attempts.add(*each)
    assert attempts.succeeds(0.05) == succeeds


async def test_the_first_step_of_the_stage_keeps_all_references_of_the_opening_for_replay():
    history = History(opened(*SKILLS), ReferenceSupervision(ReferenceRenderer()))
    first = await history.batch_of(1, (), "warm_start")
    assert len(first.kept) == len(SKILLS)
    assert all(each.written for each in first.kept)
    assert not (await history.batch_of(2, (), "warm_start")).kept
    assert not (await history.batch_of(1, (), "loop")).kept


async def test_the_stage_replays_references_of_tasks_that_no_group_attempted(
    model: Path, tmp_path: Path
):
    config = settings(model, {"steps": 1, "attempts": 4}, steps=1, groups_per_step=1)
    journal = opened(*SKILLS)
    attempt(journal, 0, "ls", 0)
    await trained(config, tmp_path, journal)
    amounts = reports(journal)[0].metrics
    assert (amounts["source/imitation/rows"], amounts["source/replay/rows"]) == (1, 2)
