"""Every run file of `configs/` is readable, fits its model, and runs with a tiny random model."""

from pathlib import Path

import pytest

from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.registry import environment_of
from coevolve.estimate.estimate import estimate
from coevolve.journal.codec import decode_as
from coevolve.launcher.launch import dry_run
from coevolve.models.architecture import KNOWN
from coevolve.models.weight_files import version_digest
from protocols.config import RunConfig, VllmEngine
from protocols.evolution import Signal
from protocols.learning import Evaluation, PolicyVersion, StepReport, WeightsVerified
from protocols.rollouts import Rollout
from protocols.synthesizers import EndpointModel
from protocols.tasks import Task
from tests.chat_server import serving
from tests.launched import LaunchedRun, launched

FOLDER = Path(__file__).parents[1] / "configs"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
BFCL = [name for name in FILES if name.startswith("bfcl_")]
APPWORLD = [name for name in FILES if name.startswith("appworld_qwen")]
CHAT = [*BFCL, "hdl_qwen3_4b"]

TRIED = (
    "policy.tiny_random=true",
    "learner.steps=2",
    "learner.groups_per_step=2",
    "learner.mini_batches=1",
    # Random weights solve nothing, so the only source of gradient is the references.
    "learner.imitation.weight=1",
    "learner.threads=1",
    "rollout.actors=1",
    "rollout.group_size=2",
    "rollout.concurrent=8",
    "rollout.max_call_tokens=192",
    "rollout.engine.threads=1",
    "rollout.engine.self_test=false",
    "evaluator.concurrent=4",
    "simulator.workers=1",
)
"""Small counts and lengths; engine, renderer, tasks, objective and precision stay as they are."""

FEW = ("environment.seeds=4", "environment.held_out=1")
OWN_TASKS = ("environment.source=own", "environment.templates=[new-note]", "environment.seeds=4")
LIGHT = ("arm=static", "evolve_every=0")
FULL = ("evolve_every=1", "evolve_wait_s=20")


def read(name: str, *overrides: str) -> RunConfig:
    return load_config(FOLDER / f"{name}.yaml", overrides)


@pytest.mark.parametrize("name", FILES)
def test_a_run_file_is_read_and_can_be_estimated(name: str):
    config = read(name)
    assert config.name.replace("-", "_") == name
    assert estimate(config, own=environment_of(config).own_models).parameters


@pytest.mark.parametrize("name", BFCL)
def test_a_run_file_for_bfcl_follows_the_paper(name: str):
    config = read(name)
    learner, signals = config.learner, config.signals
    assert (config.rollout.group_size, learner.groups_per_step, learner.steps) == (8, 32, 120)
    assert (config.evolve_every, signals.rules, signals.window) == (10, "paper", 10)
    assert (signals.rare_share, config.environment["seeds"]) == (0.05, 100)
    assert (config.uses, config.environment["categories"]) == ("bfcl", ["base"])
    assert learner.learning_rate == (1e-6 if config.policy.train == "full" else 1e-5)
    assert isinstance(config.rollout.engine, VllmEngine)
    assert isinstance(config.synthesizer.model, EndpointModel)


def test_the_run_file_on_designs_follows_the_papers_continuation():
    config = read("hdl_qwen3_4b")
    learner, hdl = config.learner, hdl_settings(config)
    assert (config.rollout.group_size, learner.groups_per_step, learner.steps) == (4, 4, 300)
    assert (hdl.rounds, hdl.next_state, hdl.memory) == (2, "worst", "best")
    assert (hdl.evaluation_rounds, hdl.stages[-1].rejection.least_gain) == (4, 0.01)
    assert (learner.learning_rate, config.rollout.temperature) == (1e-6, 1.0)


@pytest.mark.parametrize("name", APPWORLD)
def test_a_run_file_for_appworld_follows_the_paper_as_the_one_for_bfcl_does(name: str):
    config, other = read(name), read(name.replace("appworld", "bfcl"))
    assert (config.policy, config.learner, config.signals) == (
        other.policy,
        other.learner,
        other.signals,
    )
    assert config.rollout.max_calls_per_turn == 30
    assert (config.rollout.group_size, config.evolve_every) == (8, 10)
    assert (config.uses, config.environment["source"]) == ("appworld", "official")
    assert (config.environment["seeds"], config.environment["held_out"]) == (100, 168 + 417)


@pytest.mark.appworld
@pytest.mark.parametrize("name", APPWORLD)
def test_a_run_file_for_appworld_can_be_tried_on_own_tasks(name: str):
    preflight.check(read(name, "policy.tiny_random=true", *OWN_TASKS))


def test_a_dry_run_names_the_folder_of_tasks_that_nobody_has_downloaded():
    lines = dry_run(read("appworld_qwen3_4b", "policy.tiny_random=true")).splitlines()
    (said,) = [line for line in lines if "`appworld download data` made" in line]
    assert said.startswith("# missing: environment.data: ")


@pytest.mark.parametrize("name", [*CHAT, *APPWORLD])
def test_conversations_fit_into_the_model(name: str):
    config = read(name)
    assert config.rollout.max_tokens <= KNOWN[config.policy.model]["max_position_embeddings"]


@pytest.mark.parametrize("name", CHAT)
def test_a_run_file_can_be_tried_without_its_model(name: str):
    preflight.check(read(name, "policy.tiny_random=true"))


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_a_run_file_runs_with_all_its_parts_on_a_tiny_random_model(tmp_path: Path):
    with serving() as server:
        endpoint = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        model = f"synthesizer.model={endpoint}"
        run_file = "configs/bfcl_qwen3_4b.yaml"
        with launched(tmp_path, "tried", *TRIED, *FEW, *FULL, model, run_file=run_file) as run:
            assert run.wait(500) == 0, run.said()
        # Random weights call no tool, so there is no signal and no synthesis request. The
        # synthesizer still checks that its model answers.
        assert server.requests
    check_run(run)
    assert not run.holds(Signal)


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("bfcl_qwen2_5_7b", ()),
        # On a CPU, vLLM serves no adapter together with experts.
        ("bfcl_qwen3_30b_a3b", ("rollout.engine.deliver=merged",)),
    ],
)
def test_a_run_file_trains_a_tiny_random_model(
    tmp_path: Path, name: str, overrides: tuple[str, ...]
):
    settings = (*TRIED, *FEW, *LIGHT, *overrides)
    with launched(tmp_path, "tried", *settings, run_file=f"configs/{name}.yaml") as run:
        assert run.wait(500) == 0, run.said()
    check_run(run)


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.hdl
@pytest.mark.timeout(600)
def test_a_run_file_on_designs_takes_steps_with_a_tiny_random_model(tmp_path: Path):
    settings = (*TRIED, "learner.imitation.weight=0", "environment.evaluation_rounds=1")
    run_file = "configs/hdl_qwen3_4b.yaml"
    with launched(tmp_path, "tried", *settings, run_file=run_file) as run:
        assert run.wait(500) == 0, run.said()
    with run.reader().snapshot() as state:
        steps = [decode_as(each, StepReport) for each in state.scan("step_report")]
        tasks = [decode_as(each, Task) for each in state.scan("task")]
        rollouts = [decode_as(each, Rollout) for each in state.scan("rollout")]
        scores = [decode_as(each, Evaluation) for each in state.scan("evaluation")]
    assert [each.step for each in steps] == [1, 2]
    assert {each.split for each in tasks} == {"train"}
    assert {each.task_id for each in rollouts} <= {each.task_id for each in tasks}
    # Random weights write no testbench.
    assert {each.reward for each in rollouts} == {0.0}
    assert {each.ended for each in rollouts} <= {"malformed", "too_long"}
    scored = {each.task_id for each in scores[-1].scores}
    assert scored == {each.design_id for each in hardware.designs(read("hdl_qwen3_4b"))}
    assert {each.score for each in scores[-1].scores} == {0.0}


def check_run(run: LaunchedRun) -> None:
    """Check two steps on references, versions that the engines have proven, and a score."""
    with run.reader().snapshot() as state:
        steps = [decode_as(each, StepReport) for each in state.scan("step_report")]
        versions = [decode_as(each, PolicyVersion) for each in state.scan("policy_version")]
        delivered = [decode_as(each, WeightsVerified) for each in state.scan("weights_verified")]
        scores = [decode_as(each, Evaluation) for each in state.scan("evaluation")]
    assert [each.step for each in steps] == [1, 2]
    assert all(group.use == "imitation" for each in steps for group in each.groups)
    assert [each.version for each in versions] == [0, 1, 2]
    assert len({each.digest for each in versions}) == 3
    proven = {(each.engine, each.version) for each in delivered}
    assert {("rollout-0", 0), ("rollout-0", 2)} <= proven
    assert scores[-1].version == 2
    last = versions[-1]
    assert last.digest == version_digest(run.directory / last.path, last.format)
