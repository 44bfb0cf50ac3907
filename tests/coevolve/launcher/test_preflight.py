"""A new run needs models that can make and read tasks, unless its file says otherwise."""

from pathlib import Path

import pytest

from coevolve.config import preflight
from coevolve.config.load import load_config
from protocols.config import RunConfig
from protocols.errors import DependencyError
from tests.chat_server import Behaviour, fails, replies, says, serving
from tests.commands import answered

SETTINGS = ("synthesizer.model", "validator.reader")
UNREACHABLE = "http://127.0.0.1:9/v1"

USELESS: dict[str, tuple[Behaviour, str]] = {
    "an empty object": (says("{}"), "gave no usable answer"),
    "words": (says("I am fine."), "gave no usable answer"),
    "nothing": (says(None), "gave no usable answer"),
    "a list": (says("[1]"), "gave no usable answer"),
    "an error": (fails(500, "out of order"), "out of order"),
    "no credit": (replies({"error": {"code": "insufficient_quota"}}, 429), "no credit"),
    "a refusal": (
        replies({"choices": [{"message": {"refusal": "No."}}]}),
        "the model refuses: No.",
    ),
}


def model_at(base_url: str) -> str:
    return f"{{kind: endpoint, base_url: '{base_url}', model: m, timeout_s: 10, tries: 2}}"


def config_with(setting: str, base_url: str, *more: str) -> RunConfig:
    return load_config("quickstart", (f"{setting}={model_at(base_url)}", *more))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", USELESS)
def test_a_model_that_cannot_do_its_work_is_refused(setting: str, name: str) -> None:
    behaviour, words = USELESS[name]
    with serving() as server:
        server.then(*(behaviour,) * 4)
        with pytest.raises(DependencyError) as caught:
            preflight.refuse_useless_models(config_with(setting, server.base_url))
    assert str(caught.value).startswith(f"{setting}: the model m at {server.base_url}")
    assert words in str(caught.value)
    assert "synthesizer.may_be_missing=true" in str(caught.value)


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_unreachable_model_ends_a_launch_and_writes_nothing(
    setting: str, tmp_path: Path
) -> None:
    words = (f"{setting}={model_at(UNREACHABLE)}", "--runs", str(tmp_path / "runs"))
    answer = answered("launch", "quickstart", *words)
    assert answer.returncode == 1
    assert f"{setting}: the model m at {UNREACHABLE}" in answer.stderr
    assert "check that the server runs" in answer.stderr
    assert not (tmp_path / "runs").exists()


def test_both_are_named_if_both_are_of_no_use() -> None:
    more = f"validator.reader={model_at('http://127.0.0.1:10/v1')}"
    with pytest.raises(DependencyError, match="2 things are missing") as caught:
        preflight.refuse_useless_models(config_with("synthesizer.model", UNREACHABLE, more))
    assert all(setting in str(caught.value) for setting in SETTINGS)


def test_a_run_file_may_say_that_a_model_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    more = "synthesizer.may_be_missing=true"
    preflight.refuse_useless_models(config_with("synthesizer.model", UNREACHABLE, more))
    assert "no task is made until it answers" in capsys.readouterr().err


def test_models_that_answer_are_asked_once_and_nobody_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving() as server:
        same = f"validator.reader={model_at(server.base_url)}"
        preflight.refuse_useless_models(config_with("synthesizer.model", server.base_url, same))
        assert len(server.requests) == 1
    assert not capsys.readouterr().err


@pytest.mark.parametrize("more", ["arm=static", "arm=uniform"])
def test_a_run_that_makes_no_tasks_asks_nobody(more: str) -> None:
    preflight.refuse_useless_models(config_with("synthesizer.model", UNREACHABLE, more))
