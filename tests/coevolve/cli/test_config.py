import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from coevolve.cli.config import command
from coevolve.config import load_config
from coevolve.run_files import carried
from protocols.config import RunConfig
from protocols.errors import ConfigError

HEAVY = {"torch", "ray", "transformers", "numpy", "coevolve.config"}


def called(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_help_loads_nothing_heavy():
    code = "import sys, coevolve.cli.config as c; c.command(['--help'], standalone_mode=False); "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "explain" in done.stdout
    assert not HEAVY & set(done.stdout.split())


def test_list_has_one_line_for_each_run_file():
    lines = called("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(carried())
    assert all(len(line.split()) > 3 for line in lines)


def test_show_prints_the_run_file_as_it_is():
    assert called("show", "quickstart").stdout == carried()["quickstart"].read_text()


@pytest.mark.parametrize("words", [("--resolved",), ("learner.steps=7",)])
def test_show_prints_resolved_settings_that_are_a_run_file(tmp_path: Path, words: tuple[str]):
    file = tmp_path / "mine.yaml"
    file.write_text(called("show", "quickstart", *words).stdout)
    overrides = [word for word in words if "=" in word]
    assert load_config(file) == load_config("quickstart", overrides)
    assert msgspec.yaml.decode(file.read_bytes(), type=RunConfig).learner.guard.every == 10


def test_explain_answers_with_and_without_a_setting():
    assert "learner: section" in called("explain").stdout
    assert "default {kind: grpo}" in called("explain", "learner.objective").stdout
    said = called("explain", "--environment", "bfcl").stdout
    assert "environment.categories" in said
    assert "environment.stages" not in said


def test_check_finds_the_faults_of_a_file(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: a\nlearner: {steps: 0, threads: 0}\n")
    refused = called("check", str(file))
    assert refused.exit_code == 1
    assert isinstance(refused.exception, ConfigError)
    assert "2 problems" in str(refused.exception)
    passed = called("check", str(file), "learner.steps=1", "learner.threads=1")
    assert (passed.exit_code, passed.stdout) == (0, f"{file}: no faults; a run of it is called a\n")
