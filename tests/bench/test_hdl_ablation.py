import asyncio
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.runs import starting
from protocols import columns
from protocols.errors import RunError
from protocols.journal import Append, Message, Receipt
from protocols.learning import Evaluation, StepReport, TaskScore, TrainedGroup
from protocols.rollouts import Rollout, Tokens
from protocols.tasks import NOTHING, body_of
from tests.bench.ablation_outcome import Outcome, alike, outcome_of, table
from tests.bench.hdl_ablation import ARMS, FULL, Plan, main, plans_of
from tests.hdl_transitions import covered

RUN_FILE = Path(__file__).parents[2] / "configs" / "hdl_tiny.yaml"
STEPS = 3
CONFIG = load_config(RUN_FILE)
RULE = hdl_settings(CONFIG).stages[-1].rejection
DESIGNS = hardware.designs(CONFIG)


def planned(
    runs: Path, arms: str = ",".join(ARMS), seeds: str = "0,1", reference: str = FULL
) -> list[Plan]:
    options = Namespace(run_file=RUN_FILE, runs=runs, steps=STEPS, seeds=seeds, arms=arms)
    options.reference = reference
    options.overrides = ["learner.groups_per_step=2"]
    return plans_of(options)


def test_arms_differ_in_one_thing_and_never_in_size():
    plans = planned(Path("runs"))
    assert len({plan.name for plan in plans}) == len(plans) == 2 * len(ARMS)
    assert len({(p.config.rollout.group_size, p.config.learner.steps) for p in plans}) == 1
    stages = {plan.arm: hdl_settings(plan.config).stages for plan in plans}
    assert [s.groups for s in stages[FULL]] == [2, 0]
    assert [s.groups for s in stages["policy first"]] == [4, 0]
    assert [s.writers for s in stages["policy first"]] == [("policy",), ("grammar",)]
    assert [s.writers for s in stages["policy only"]] == [("policy",)]
    assert [s.writers for s in stages["grammar only"]] == [("grammar",)]
    learners = {plan.arm: plan.config.learner for plan in plans}
    assert stages["rejection"] == stages[FULL]
    tuned = {arm for arm in ARMS if learners[arm].objective_kind == "sft"}
    assert tuned == {"rejection", "one kept", "unfiltered"}
    assert learners["rejection"].learning_rate == CONFIG.learner.imitation.learning_rate
    kept = {arm: {(s.rejection.least_gain, s.rejection.keep) for s in stages[arm]} for arm in ARMS}
    assert kept["unfiltered"] == {(-1.0, RULE.keep)}
    assert kept["one kept"] == {(RULE.least_gain, 1)}
    assert all(kept[arm] == kept[FULL] for arm in ARMS if arm not in ("unfiltered", "one kept"))
    states = {plan.arm: hdl_settings(plan.config).next_state for plan in plans}
    assert {arm for arm in ARMS if states[arm] != "best"} == {"worst", "uniform"}
    assert all(stages[arm] == stages[FULL] for arm in ("worst", "uniform"))


@pytest.mark.parametrize("arms", ["worst", "full,best"])
def test_arms_that_cannot_be_compared_are_refused(arms: str):
    with pytest.raises(RunError, match="--arms needs 'full'"):
        planned(Path("runs"), arms)


def test_arms_are_compared_with_the_one_that_is_named():
    assert len(planned(Path("runs"), "rejection,one kept", "0", "rejection")) == 2


@pytest.mark.parametrize("seeds", ["", "0;1", "0,-1", "0,"])
def test_invalid_seeds_are_refused(seeds: str):
    with pytest.raises(RunError, match="--seeds needs whole numbers"):
        planned(Path("runs"), seeds=seeds)


def scores(version: int, coverage: float) -> Evaluation:
    made = (
        TaskScore(
            task_id=each.design_id, turns_passed=0, turns_total=1, measures={"coverage": coverage}
        )
        for each in DESIGNS
    )
    return Evaluation(version=version, scores=tuple(made), errors=0, wall_s=0.0)


def rollout(index: int) -> Rollout:
    nothing = columns.int32([])
    tokens = Tokens(token_ids=nothing, mask=b"", logprobs=columns.float32([]), versions=nothing)
    return Rollout(
        group_id="g0",
        group=0,
        index=index,
        group_size=2,
        task_id="alu16",
        seed=index,
        tokens=tokens,
        actions=(),
        turns_passed=0,
        turns_total=1,
        reward=1.5,
        version_min=0,
        version_max=0,
        ended="wrong",
        wall_s=0.0,
        outcome=body_of(covered((1, 2))) if index else NOTHING,
    )


def report(step: int) -> StepReport:
    group = TrainedGroup(
        group_id="g0", group=0, task_id="alu16", sequences=(1, 2), successes=0, use="nothing"
    )
    return StepReport(
        step=step, groups=(group,), weights_digest="", groups_consumed=step, metrics={}
    )


async def recorded(plan: Plan, runs: Path, *messages: Message) -> None:
    directory = starting.create(runs / plan.name, plan.config)
    directory.metrics.write_text("")
    journal = Journal.open(directory.store, map_size_bytes=1 << 24)
    records = tuple(encode(each) for each in messages)
    await LocalStore(journal).append(
        Append(records=records, receipt=Receipt(producer="test", counter=1))
    )
    journal.close()


def over(after: float) -> tuple[Message, ...]:
    steps = (report(step) for step in range(1, STEPS + 1))
    return rollout(0), rollout(1), scores(0, 0.25), *steps, scores(STEPS, after)


async def test_a_run_is_finished_with_its_last_score_and_counts_its_work(tmp_path: Path):
    ended, begun, absent = planned(tmp_path)[:3]
    await recorded(ended, tmp_path, *over(0.5))
    await recorded(begun, tmp_path, scores(0, 0.25), report(1))
    found = await outcome_of(tmp_path / ended.name, ended.config)
    assert found is not None
    assert (found.trained, found.calls) == (2 * STEPS, 1)
    assert (found.before["alu16"], found.after["alu16"]) == (0.25, 0.5)
    assert await outcome_of(tmp_path / begun.name, begun.config) is None
    assert await outcome_of(tmp_path / absent.name, absent.config) is None


async def all_recorded(runs: Path, after: Mapping[str, float]) -> None:
    for plan in planned(runs, ",".join(after)):
        await recorded(plan, runs, *over(after[plan.arm]))


def test_finished_runs_are_compared_and_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asyncio.run(all_recorded(tmp_path, {"full": 0.5, "worst": 0.375}))
    where = (f"--run-file={RUN_FILE}", f"--runs={tmp_path}", "--set", "learner.groups_per_step=2")
    main([*where, f"--steps={STEPS}", "--arms=worst,full"])
    told = capsys.readouterr()
    assert told.err == ""
    assert "-12.5 [-12.5, -12.5]" in told.out
    assert not list(tmp_path.glob("*.log"))


def outcome(after: float, trained: int = 6) -> Outcome:
    whole = {each.design_id: after for each in DESIGNS}
    return Outcome(before=whole, after=whole, trained=trained, calls=trained)


def test_the_interval_of_a_difference_is_over_seeds():
    after = {("full", 0): 0.5, ("full", 1): 0.5, ("worst", 0): 0.4, ("worst", 1): 0.6}
    shown = table({key: outcome(each) for key, each in after.items()}, DESIGNS, reference="full")
    (column,) = [each for each in shown.columns if "difference" in str(each.header)]
    assert [*column.cells] == ["", "", "+0.0 [-127.1, +127.1]", "+0.0 [-127.1, +127.1]"]


def test_runs_of_other_sizes_are_not_compared():
    alike({("full", 0): outcome(0.5), ("worst", 0): outcome(0.4)})
    with pytest.raises(RunError, match=r"equally many rollouts trained on .* found 5, 6"):
        alike({("full", 0): outcome(0.5), ("worst", 0): outcome(0.4, trained=5)})
    whole = outcome(0.5)
    missing = replace(whole, before=dict(list(whole.before.items())[1:]))
    with pytest.raises(RunError, match="equally many designs scored"):
        alike({("full", 0): whole, ("worst", 0): missing})


def test_each_arm_has_a_row_for_seen_and_one_for_held_out_designs():
    found = {(arm, seed): outcome(0.5) for arm in ("full", "worst") for seed in (0, 1)}
    shown = table(found, DESIGNS, reference="full")
    assert shown.row_count == 4
    assert [*shown.columns[1].cells] == ["seen", "held out"] * 2
