import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve.cli.config import WIDTH
from coevolve.config.load import load_config
from coevolve.config.run_files import carried, purpose
from protocols.config import RunConfig
from tests.commands import answered

HEAVY = {"torch", "ray", "transformers", "numpy", "coevolve.config.load"}


def test_help_loads_nothing_heavy():
    code = "import sys, coevolve.cli.config as c; c.command(['--help'], standalone_mode=False); "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "explain" in done.stdout
    assert not HEAVY & set(done.stdout.split())


def test_list_wraps_the_whole_purpose_of_each_run_file():
    listed = answered("config", "list").stdout
    names = [line.split()[0] for line in listed.splitlines() if line[0] != " "]
    assert names == list(carried())
    assert max(map(len, listed.splitlines())) <= WIDTH
    words = listed.split()
    for name, path in carried().items():
        said = purpose(path).split()
        first = words.index(name) + 1
        assert words[first : first + len(said)] == said


def test_show_prints_the_run_file_as_it_is():
    assert answered("config", "show", "quickstart").stdout == carried()["quickstart"].read_text()


@pytest.mark.parametrize("words", [("--resolved",), ("learner.steps=7",)])
def test_show_prints_resolved_settings_that_are_a_run_file(tmp_path: Path, words: tuple[str]):
    file = tmp_path / "mine.yaml"
    file.write_text(answered("config", "show", "quickstart", *words).stdout)
    overrides = [word for word in words if "=" in word]
    assert load_config(file) == load_config("quickstart", overrides)
    assert msgspec.yaml.decode(file.read_bytes(), type=RunConfig).learner.guard.every == 10


def test_explain_answers_with_and_without_a_setting():
    assert "learner: section" in answered("config", "explain").stdout
    said = answered("config", "explain", "learner.objective").stdout
    assert "default {kind: grpo}" in said
    assert answered("config", "explain", "learner.objective.kind").stdout == said
    said = answered("config", "explain", "--environment", "bfcl").stdout
    assert "environment.categories" in said
    assert "environment.stages" not in said


@pytest.mark.parametrize(
    ("override", "said", "code"),
    [
        ("policy.model=/none/model", "policy.model: needs", 1),
        ("policy.model=nobody/none", "policy.model: nobody/none needs to be a folder or", 3),
        ("learner.devices=1000", "learner.devices: 1000 processes that compute on CPUs", 3),
    ],
)
def test_check_refuses_what_a_launch_refuses(tmp_path: Path, override: str, said: str, code: int):
    checked = answered("config", "check", "quickstart", override)
    assert checked.returncode == code
    assert ("no faults, but this machine cannot start" in checked.stdout) == (code == 3)
    launched = answered("launch", "quickstart", override, "--runs", str(tmp_path))
    assert launched.returncode == 1
    assert said in checked.stderr
    assert said in launched.stderr
    assert not list(tmp_path.iterdir())


def test_check_finds_the_faults_of_a_file(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: a\nlearner: {steps: 0, threads: 0}\n")
    refused = answered("config", "check", str(file))
    assert refused.returncode == 1
    assert "2 problems" in refused.stderr
    passed = answered("config", "check", str(file), "learner.steps=1", "learner.threads=1")
    assert (passed.returncode, passed.stdout) == (
        0,
        f"{file}: no faults; a run of it is called a\n",
    )
