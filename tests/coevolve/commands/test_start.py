"""`coevolve start`: what it checks, measures and writes, and that the run begins."""

import shutil
from pathlib import Path

import pytest

from coevolve.commands.chosen import Choice, machine, run_file_text, with_given
from coevolve.commands.duration import Measured
from coevolve.commands.row_time import RowSeconds
from coevolve.commands.start import found_model
from coevolve.config.load import config_in, load_config
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.lengths import Lengths
from coevolve.history.directory import RunDirectory
from coevolve.models.model_folder import TINY_FOLDER
from tests.commands import Answer, answered
from tests.conftest import ROOT

OWN = ROOT / "tests" / "own"
CLASS, TASKS = "begun_store:KeyValue", "keyvalue.jsonl"
TINY = ("--model", "Qwen/Qwen3-4B-Instruct-2507", "policy.tiny_random=true")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a class and its tasks, and nothing else."""
    shutil.copy(OWN / "keyvalue.py", tmp_path / "begun_store.py")
    shutil.copy(OWN / TASKS, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*words: str) -> Answer:
    return answered("start", *words)


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_class_and_its_tasks_are_enough_for_a_run(here: Path):
    done = started(CLASS, TASKS, *TINY, "--sample", "2", "--attempts", "2", "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert "to train on" in done.stdout
    config = RunDirectory(here / "runs" / "keyvalue").config()
    assert load_config("keyvalue.yaml").rollout == config.rollout
    assert (config.learner.steps, config.arm) == (2, "static")
    assert "held-out success" in done.stdout
    assert (here / "runs" / "keyvalue" / "report.html").is_file()
    again = started(CLASS, TASKS, *TINY)
    assert again.returncode == 1
    assert "keyvalue.yaml: exists already" in again.stderr
    assert "coevolve launch keyvalue.yaml" in again.stderr


def test_lengths_are_measured_and_every_chosen_value_has_its_reason(here: Path):
    done = started(
        *(CLASS, TASKS, *TINY, "--sample", "3", "--attempts", "1", "--dry-run", "--name", "kv"),
        *("learner.imitation.weight=2", "evaluator.every=7"),
    )
    assert done.returncode == 0, done.stderr
    text = (here / "kv.yaml").read_text()
    assert text in done.stdout
    config = load_config("kv.yaml")
    assert not (here / "runs").exists()
    assert (config.learner.imitation.weight, config.evaluator.every) == (2, 7)
    assert config.learner.warm_start.steps  # random weights solve nothing
    assert f"of up to {config.rollout.max_tokens}" not in text
    prompts = int(text.partition("prompts have up to ")[2].split()[0])
    assert prompts < config.rollout.max_tokens <= 4 * prompts
    assert "as you said" in text
    assert config.learner.guard.action == "none"
    train = int(done.stdout.partition("tasks: ")[2].split()[0])
    assert train == len(environment_of(config).sampler().opening())  # none is kept for a guard
    said = (here / "kv.attempts.txt").read_text()
    assert said.count("=== ") == 3
    assert "failed: " in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"{CLASS}s", TASKS), "command line: 1 problem:\n  $.environment.use: module begun_store"),
        ((CLASS, "none.jsonl"), "environment.tasks: none.jsonl has to be"),
        ((CLASS, TASKS, "learner.stepz=2"), "did you mean 'steps'"),
        ((CLASS, TASKS, "learner.steps"), "has no '='"),
        ((CLASS, TASKS, "--model", "nothing"), "needs to be a folder in Hugging Face"),
        ((CLASS, TASKS, "--model", str(TINY_FOLDER)), "chat template"),
        (("hdl", TASKS), "tasks"),
        ((CLASS, TASKS, "--synthesizer", "localhost:1", "m"), "needs a URL"),
        ((CLASS, TASKS, *TINY, "--synthesizer", "http://127.0.0.1:9/v1", "m"), "127.0.0.1:9"),
        ((CLASS, TASKS, "--attempts", "0"), "--attempts"),
        ((CLASS, TASKS, "--name", "taken", "--overwrite"), "taken.yaml: needs to be a file that"),
        ((CLASS, TASKS, "--name", "n" * 300), "cannot be written: OSError"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_heavy(
    here: Path, words: tuple[str, ...], said: str
):
    (taken := here / "taken.yaml").mkdir()
    done = started(*words)
    assert done.returncode in (1, 2), done.stdout
    assert said in done.stderr
    assert "scoring" not in done.stdout
    assert not (here / "runs").exists()
    assert list(here.glob("*.yaml")) == [taken]


def test_a_model_is_fetched_into_the_cache_once(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COEVOLVE_CACHE", str(here / "cache"))
    folder = here / "cache" / "models" / "smollm2-135m"
    shutil.copytree(TINY_FOLDER, folder)
    assert found_model("smollm2-135m", print) == str(folder)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"learner.steps": 3}, "learner:\n  steps: 3  # as you said"),
        ({"learner.imitation.weight": 2}, "imitation: {weight: 2, learning_rate: 1e-3}"),
        ({"rollout.engine.kind": "vllm"}, "rollout:\n  engine: {kind: vllm}"),
        ({"seed": 4}, "seed: 4  # as you said"),
        ({"policy.chat.system": "a: b"}, "chat: {tools: prompt, system: 'a: b'}"),
    ],
)
def test_the_users_settings_take_the_place_of_those_chosen(given: dict[str, object], found: str):
    chosen = [
        Choice(key="name", value="n"),
        Choice(key="arm", value="static"),
        Choice(key="learner.steps", value=9, why="chosen"),
        Choice(key="learner.imitation", value={"weight": 1, "learning_rate": 1e-3}, why="chosen"),
        Choice(key="policy.chat", value={"tools": "prompt"}, why="x" * 200),
    ]
    text = run_file_text(with_given(chosen, given), ["a head"])
    assert found in text
    assert all(len(line) <= 210 for line in text.splitlines())
    config_in(Path("n.yaml"), text)


@pytest.mark.parametrize(
    ("rows", "precision"),
    [
        (RowSeconds(fp32=4.0, bf16=1.0), "bf16"),
        (RowSeconds(fp32=4.0, bf16=3.9), None),
        (RowSeconds(fp32=1.0, bf16=9.0), None),
    ],
)
def test_bfloat16_is_chosen_where_it_is_faster(rows: RowSeconds, precision: str | None):
    known = measured(weights=135_000_000)
    chosen = {each.key: each.value for each in machine(known, rows)}
    assert chosen.get("policy.precision") == precision
    assert ("dtype" in chosen.get("rollout.engine", {})) == (precision is not None)
    few = {each.key for each in machine(measured(weights=400_000), rows)}
    assert few == {"simulator.workers"}


def measured(weights: int) -> Measured:
    """Return what is known of a model of a size, on two cores."""
    lengths = Lengths(prompts=200, conversation=250, message=20, answer=10, turns=1)
    return Measured(
        weights=weights,
        trained_before=True,
        positions=8192,
        cache_bytes_a_token=46_000,
        lengths=lengths,
        references=True,
        held_out=10,
        cores=2,
        free_bytes=10**10,
        free_disk=10**12,
    )
