"""The loop on hardware designs in one process, with the tiny policy from its first edit."""

import math
import shutil
from pathlib import Path

import pytest

from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.policy.task import coverage_task
from coevolve.environments.hdl.policy.tiny.edits import edits
from coevolve.environments.hdl.policy.tiny.model import write_model
from coevolve.environments.hdl.policy.transition import coverage_of, graded_of
from coevolve.journal.codec import decode_as
from coevolve.journal.local_store import LocalStore
from coevolve.loop import run_here
from coevolve.models.tiny_random.resolve import MODEL, running
from protocols import columns
from protocols.config import RunConfig
from protocols.evolution import GroupSummary
from protocols.generation import END, Grammar
from protocols.learning import Evaluation, StepReport
from protocols.rollouts import Rollout, RolloutRequest
from protocols.tasks import Task

pytestmark = pytest.mark.hdl

RUN_FILE = Path(__file__).parents[6] / "configs" / "hdl_tiny.yaml"
STEPS, GROUPS, SIZE, WARM_UP = 4, 2, 4, 3
DESIGNS = ("vend_fsm", "rr_arbiter")
"""One design of each split."""


def small(folder: Path, *overrides: str) -> RunConfig:
    for name in DESIGNS:
        shutil.copytree(hardware.DESIGNS / name, folder / "designs" / name)
    settings = {
        "environment.designs": folder / "designs",
        "environment.stages": f"[{{writers: [grammar], groups: {WARM_UP}}}, {{}}]",
        "environment.rounds": 2,
        "environment.evaluation_rounds": 2,
        "learner.steps": STEPS,
        "learner.groups_per_step": GROUPS,
        "rollout.group_size": SIZE,
    }
    every = [f"{name}={value}" for name, value in settings.items()]
    return load_config(RUN_FILE, [*every, *overrides])


async def played(folder: Path, *overrides: str) -> LocalStore:
    """Run the loop until the last version is scored."""
    config = small(folder, *overrides)
    preflight.check(config)
    write_model(config.seed, folder / MODEL)
    config = running(config, folder)
    return await run_here(config, folder)


def assert_all_alike(rollout: Rollout, grammar: Grammar) -> None:
    """Check that every token was drawn from the allowed ones with equal odds."""
    tokens = rollout.tokens
    every = zip(
        columns.from_int32(tokens.token_ids),
        columns.from_float32(tokens.logprobs),
        tokens.mask,
        strict=True,
    )
    written = [(token, logprob) for token, logprob, sampled in every if sampled]
    state, odds = 0, list[float]()
    for token, _ in written:
        edges = dict(grammar.states[state])
        odds.append(-math.log(len(edges)))
        state = edges[token]
    assert state == END
    assert [logprob for _, logprob in written] == pytest.approx(odds, abs=1e-4)


async def test_the_loop_warms_up_on_its_grammar_and_trains_on_gains(tmp_path: Path):
    store = await played(tmp_path)
    requests = [decode_as(each, RolloutRequest) for each in await store.scan("rollout_request")]
    assert all((each.author == "grammar") == (each.group < WARM_UP) for each in requests)

    rollouts = [decode_as(each, Rollout) for each in await store.scan("rollout")]
    assert len(rollouts) >= STEPS * GROUPS * SIZE
    assert {each.ended for each in rollouts} <= {"finished", "wrong"}
    drawn = [each for each in rollouts if each.group < WARM_UP]
    assert drawn
    for each in drawn:
        assert_all_alike(each, edits(load(hardware.DESIGNS / each.task_id.partition("/")[0])))

    found = [coverage_task(decode_as(each, Task)) for each in await store.scan("task")]
    tasks = {each.task_id: each for each in found}
    for each in rollouts:
        state = graded_of(each)
        assert state is not None
        before, after = coverage_of(tasks[each.task_id].state), coverage_of(state)
        assert after is not None
        assert before is None or before.overall_average <= after.overall_average

    visits = [decode_as(each, GroupSummary) for each in await store.scan("group_summary")]
    assert [each.rollouts for each in visits] == [SIZE] * (STEPS * GROUPS)

    reports = [decode_as(each, StepReport) for each in await store.scan("step_report")]
    assert [each.step for each in reports] == list(range(1, STEPS + 1))
    scores = [decode_as(each, Evaluation) for each in await store.scan("evaluation")]
    assert {each.version for each in scores} == {0, STEPS}
    assert all({s.task_id for s in each.scores} == set(DESIGNS) for each in scores)
    assert all(0 < s.score < 1 for each in scores for s in each.scores if s.measures)


async def test_a_policy_gradient_uses_the_grammar_of_its_rollouts(
    tmp_path: Path,
):
    store = await played(
        tmp_path,
        "learner.objective={kind: grpo}",
        "learner.ppo_epochs=1",
        "learner.max_staleness=0",
        "learner.learning_rate=1e-2",
        "learner.kl_coefficient=0.01",
        f"environment.stages=[{{writers: [grammar], groups: {GROUPS}}}, {{}}]",
    )
    reports = [decode_as(each, StepReport) for each in await store.scan("step_report")]
    warm_up, *own = reports
    assert {group.use for group in warm_up.groups} == {"imitation"}
    assert warm_up.metrics["source/imitation/rows"] > 0
    assert {group.use for report in own for group in report.groups} >= {"policy_gradient"}
    for report in own:
        assert report.metrics["source/imitation/rows"] == 0
        if report.metrics["source/objective/rows"]:
            # Values of engine and trainer; without the grammar they differ by whole nats.
            assert abs(report.metrics["rollout_corr/kl"]) < 1e-3
            assert report.metrics["rollout_corr/k3_kl"] < 1e-5
            assert 0 < report.metrics["actor/entropy"] < math.log(40)
            assert math.isfinite(report.metrics["actor/kl_loss"])
    digests = [report.weights_digest for report in reports]
    assert len(set(digests)) > WARM_UP - 1
