"""A version of a run, or a model, behind an endpoint and in a terminal."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from openai import OpenAI

from protocols.config import PolicyConfig, RolloutConfig, RunConfig
from tests.commands import ROOT, answered
from tests.exporting import chat_model, settings, write_run, write_versions

TEXTS = ["Hello there, how are you?", "I am fine."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("models") / "small", TEXTS, vocabulary=300)


@pytest.fixture(scope="module")
def runs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs: one of two versions, and one that has made none yet."""
    folder = tmp_path_factory.mktemp("runs")
    config = replace(
        settings(RunConfig(name="trial")),
        policy=PolicyConfig(model=str(model)),
        rollout=RolloutConfig(max_tokens=96, max_call_tokens=8),
    )
    versions = write_versions(folder / "weights", config, [1, 2])
    shutil.move(folder / "weights/versions", write_run(folder / "trial", config, versions).path)
    write_run(folder / "begun", config, [])
    return folder


def begun(*words: str | Path) -> subprocess.Popen[str]:
    """Start a command; the test ends it."""
    command = [sys.executable, "-m", "coevolve", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def talked(lines: str, *words: str | Path) -> tuple[int, str]:
    with begun("chat", *words) as command:
        out, err = command.communicate(lines, timeout=100)
        assert not err, err
        return command.returncode, out


def test_a_version_answers_line_by_line_until_its_conversation_is_full(runs: Path) -> None:
    lines = "Hello\n\n there\n" + "x" * 40 + "\nHello\n"
    words = ("trial", "--runs", runs, "--version", "1", "--temperature", "0")
    code, said = talked(lines, *words)
    assert code == 0
    *_, refusal, last = said.removesuffix("\n").rsplit("\n", 2)
    assert refusal.startswith("(a conversation needs room within 96 tokens, found ")
    assert refusal.endswith("; a new conversation begins)")
    assert said.startswith(f"{last}\n"), "greedy, and from the beginning again"


def test_a_model_talks_to_the_openai_package_until_it_is_interrupted(model: Path) -> None:
    with begun("serve", model, "--port", "0", "--temperature", "0") as command:
        assert command.stdout is not None
        export, url, key = command.stdout.readline().split()
        assert export == "export"
        assert f"{model} is the model 'policy'" in command.stdout.readline()
        client = OpenAI(
            base_url=url.removeprefix("OPENAI_BASE_URL="),
            api_key=key.removeprefix("OPENAI_API_KEY="),
        )
        create = client.chat.completions.create
        texts = set[str | None]()
        for _ in range(2):
            answer = create(
                model="m", messages=[{"role": "user", "content": "Hello"}], max_tokens=5
            )
            assert answer.usage
            assert answer.usage.completion_tokens <= 5
            texts.add(answer.choices[0].message.content)
        assert len(texts) == 1, "greedy"
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130


def refused(*words: str | Path) -> str:
    answer = answered(*map(str, words))
    assert (answer.returncode, answer.stdout) == (1, "")
    return answer.stderr


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_what_is_no_policy_is_refused(command: str, runs: Path, model: Path) -> None:
    port = ("--port", "0") if command == "serve" else ()
    asked = (command, "--runs", runs, *port)
    needs = "A model needs a folder with config.json"
    assert "newest first, it holds" in refused(*asked, "nothing")
    for given in ("nothing", str(runs), "x" * 5000, "a b/c", "."):
        assert needs in refused(*asked, given)
    assert "hf download org/absent" in refused(*asked, "org/absent")
    assert "has no policy version yet" in refused(*asked, "begun")
    assert "weights exist for version 1, 2" in refused(*asked, "trial", "--version", "9")
    assert "no version has a score" in refused(*asked, "trial", "--version", "best")
    assert "needs a RUN, found the model" in refused(*asked, str(model), "--version", "1")


def test_models_that_cannot_talk_are_refused(model: Path, tmp_path: Path) -> None:
    for name, kept in {
        "bare": ("config.json",),
        "mute": ("config.json", "model.safetensors"),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        for each in kept:
            os.link(model / each, folder / each)
        needs = "needs a chat template" if name == "mute" else "*.safetensors"
        assert needs in refused("chat", folder)


def test_a_port_in_use_is_refused_before_anything_is_loaded(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = refused("serve", model, "--port", str(port))
    assert f"--port {port}: cannot be listened on: Address already in use" in words
    assert "give another one, or 0" in words
