"""The whole loop in one process: the parts that the actors run, without Ray."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from coevolve.loop import run_here
from protocols.config import RunConfig
from protocols.control import DeadLetter
from protocols.evolution import (
    CallFailed,
    ModelRests,
    Signal,
    SignalSettled,
)
from protocols.learning import Evaluation, StepReport
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task, instance_of
from tests.chat_server import fails, serving
from tests.misbehaving import BEHAVIOURS, TAUNTS, misbehaving
from tests.one_process import check_loop_is_closed, everything

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("short_waits")]


def small(
    config: RunConfig, arm: str, steps: int = 2, evolve_every: int = 0, scores: str = "rollout"
) -> RunConfig:
    tree = msgspec.to_builtins(config)
    tree["arm"] = arm
    tree["evolve_every"] = evolve_every
    tree["learner"] |= {"steps": steps, "groups_per_step": 2}
    tree["rollout"] |= {"group_size": 2}
    tree["evaluator"] |= {"every": evolve_every or 1, "engine": scores}
    tree["environment"] |= {"held_out": 4, "seeds": 6}
    return msgspec.convert(tree, RunConfig)


@pytest.mark.parametrize(("arm", "scores"), [("static", "own"), ("uniform", "rollout")])
async def test_the_loop_trains_and_scores_every_version(
    arm: str, scores: str, quickstart: RunConfig, tmp_path: Path
):
    store = await run_here(small(quickstart, arm, scores=scores), tmp_path)
    reports: list[StepReport] = await everything(store, StepReport)
    assert [report.step for report in reports] == [1, 2]
    scored: list[Evaluation] = await everything(store, Evaluation)
    assert [score.version for score in scored] == [0, 1, 2]
    assert all(len(score.scores) == 4 and score.errors == 0 for score in scored)
    tasks = await everything(store, Task)
    groups = {group.task_id for report in reports for group in report.groups}
    assert len(tasks) == 6 if arm == "static" else len(groups) == 4


@pytest.mark.parametrize("scores", ["own", "rollout"])
async def test_the_loop_scores_held_out_and_trained_tasks_under_other_names(
    scores: Literal["own", "rollout"], quickstart: RunConfig, tmp_path: Path
):
    config = small(quickstart, "static", scores=scores)
    evaluator = msgspec.structs.replace(config.evaluator, fresh=4)
    store = await run_here(msgspec.structs.replace(config, evaluator=evaluator), tmp_path)
    scored: list[Evaluation] = await everything(store, Evaluation)
    assert [len(score.trained) > 0 for score in scored] == [False, True, True]
    for score in scored:
        held_out = {each.task_id for each in score.scores}
        trained = {each.task_id for each in score.trained}
        roots = {instance_of(each.task_id)[0] for each in score.instances}
        assert trained <= roots <= held_out | trained
        assert roots & held_out
        assert not held_out & trained
    assert all(each.split == "train" for each in await everything(store, Task))


@pytest.mark.exhaustive
@pytest.mark.parametrize("arm", ["random", "placebo"])
async def test_the_loop_closes(arm: str, quickstart: RunConfig, tmp_path: Path):
    # In steps with the training, so that the new tasks are met even on a slow machine.
    store = await run_here(small(quickstart, arm, steps=16, evolve_every=8), tmp_path)
    await check_loop_is_closed(store)


async def test_an_endpoint_that_misbehaves_in_every_way_uses_up_no_signal(
    quickstart: RunConfig, tmp_path: Path
):
    # Training waits for the model's first failures, so that there are signals for it to fail at.
    config = small(quickstart, "full", steps=16, evolve_every=8)
    with misbehaving(TAUNTS) as server:
        model = EndpointModel(base_url=server.base_url, model="bad", timeout_s=0.2, tries=1)
        synthesizer = msgspec.structs.replace(config.synthesizer, model=model, longest_rest_s=0.001)
        store = await run_here(msgspec.structs.replace(config, synthesizer=synthesizer), tmp_path)
    reports: list[StepReport] = await everything(store, StepReport)
    assert [report.step for report in reports] == list(range(1, 17))
    assert await everything(store, Signal)
    assert await everything(store, SignalSettled) == []
    assert await everything(store, DeadLetter) == []
    rests: list[ModelRests] = await everything(store, ModelRests)
    assert rests[0].failures == 3
    assert await everything(store, CallFailed)
    assert sum(server.met[name] > 0 for name in BEHAVIOURS) >= 20


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


async def test_a_key_that_every_call_carries_is_written_nowhere(
    quickstart: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    key = "sk-planted-4f1c9b7d2e8a"
    monkeypatch.setenv("COEVOLVE_TEST_KEY", key)
    config = small(quickstart, "full", steps=8, evolve_every=4)
    with serving() as server:
        server.then(fails(401, f"the key {key} is wrong"), fails(500, f"Bearer {key}"))
        model = EndpointModel(
            base_url=server.base_url, model="scripted", key_variable="COEVOLVE_TEST_KEY", tries=1
        )
        synthesizer = msgspec.structs.replace(config.synthesizer, model=model, longest_rest_s=0.001)
        await run_here(msgspec.structs.replace(config, synthesizer=synthesizer), tmp_path)
    assert len(server.requests) > 3
    assert {each.authorization for each in server.requests} == {f"Bearer {key}"}
    written = files_of(tmp_path)
    assert len(written) > 5
    assert not [name for name, content in written.items() if key.encode() in content]
