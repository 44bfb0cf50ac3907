"""A check finds what would end a start, by making and reading the run's model as a start does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.launcher.launch import dry_run
from coevolve.launcher.preflight import missing, rehearse
from coevolve.models.architecture import KNOWN
from protocols.config import RunConfig
from protocols.errors import ConfigError
from tests.commands import answered

QWEN = KNOWN["Qwen/Qwen3-4B-Instruct-2507"]
SMALL = ("policy.tiny_random=true", "environment.seeds=8", "environment.held_out=4", "arm=static")


def damaged(folder: Path, **files: str) -> RunConfig:
    """Return a run that makes a tiny random model of a folder with these files."""
    (folder / "config.json").write_text(json.dumps(QWEN))
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    return load_config("quickstart", [*SMALL, f"policy.model={folder}"])


@pytest.mark.parametrize("file", ["hdl_tiny", "quickstart"])
def test_a_run_file_that_can_start_passes_and_leaves_nothing(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rehearse(load_config(file))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"tokenizer_config": "{", "tokenizer": "{}"}, "needs a usable tokenizer"),
        ({"tokenizer_config": "{}", "tokenizer": "no JSON"}, "needs a usable tokenizer"),
        ({"tokenizer_config": "[]"}, "needs a usable tokenizer"),
        ({"config": json.dumps(dict(QWEN) | {"model_type": "quen3"})}, "quen3"),
    ],
)
def test_a_model_that_would_end_the_start_is_refused_by_check_and_dry_run(
    files: dict[str, str], said: str, tmp_path: Path
):
    config = damaged(tmp_path, **files)
    for check in (rehearse, dry_run):
        with pytest.raises(ConfigError, match=said):
            check(config)
    answer = answered("config", "check", "quickstart", *SMALL, f"policy.model={tmp_path}")
    assert answer.returncode == 1
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("given", "check"),
    [
        (("rollout.max_call_tokens=8",), missing),
        (("rollout.max_call_tokens=2", "seed=7", "arm=static"), dry_run),
        ((*SMALL, "rollout.max_call_tokens=9", "rollout.max_tokens=9000"), rehearse),
    ],
)
def test_a_message_too_short_for_references_is_refused_before_a_start(
    given: tuple[str, ...], check: Callable[[RunConfig], object]
):
    with pytest.raises(ConfigError, match=r"max_call_tokens: .*found \d for the \d+ tokens"):
        check(load_config("quickstart", given))


def test_what_is_lacking_is_listed_before_anything_is_made():
    config = load_config("bfcl_qwen3_4b")
    assert missing(config)
    assert "# missing: " in dry_run(config)
