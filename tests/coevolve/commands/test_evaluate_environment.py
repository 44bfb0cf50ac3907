"""`coevolve evaluate --environment`: several attempts of an endpoint or a model at own tasks."""

import json
import re
import shutil
from pathlib import Path

import pytest

from protocols.config import RunConfig
from tests import evolving
from tests.chat_server import Messages, fails, says, serving
from tests.commands import Answer, answered
from tests.conftest import ROOT
from tests.exporting import settings, write_run, write_versions

OWN = ROOT / "tests" / "own"
HERE = ("--environment", "scored_store:KeyValue", "tasks=keyvalue.jsonl")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a class and its tasks."""
    shutil.copy(OWN / "keyvalue.py", tmp_path / "scored_store.py")
    shutil.copy(OWN / "keyvalue.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluated(*words: str) -> Answer:
    return answered("evaluate", *HERE, *words)


def puts(messages: Messages) -> str:
    """Answer as a model that can only set and remove keys."""
    last = messages[-1]["content"]
    if messages[1]["content"].startswith("Call"):
        return "[rename(old="
    if last.startswith("The answers"):
        return "Done."
    if found := re.match(r"Set '(\w+)' to '(\w+)'", last):
        return f"[put(key='{found[1]}', value='{found[2]}')]"
    if found := re.match(r"Remove '(\w+)'", last):
        return f"[delete(key='{found[1]}x')]"
    return "I do not know."


def test_an_endpoint_is_scored_by_tool_with_reasons_and_conversations(here: Path):
    with serving(puts) as server:
        asked = ("--endpoint", server.base_url, "--model", "m", "--tasks", "all")
        done = evaluated(*asked, "--attempts", "2", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        once = evaluated(*asked, "--attempts", "1")
        shown = evaluated(*asked)
    rows = {row["label"]: row for row in found["rows"]}
    assert rows["put"]["pass_1"]["mean"] == rows["put"]["pass_k"] == 1
    assert rows["delete"]["pass_1"]["mean"] == rows["rename"]["pass_k"] == 0
    assert 0 < rows["all"]["pass_1"]["mean"] < 1
    assert set(found["failures"]) == {
        "a call that the tools refused",
        "a message that cannot be read",
    }
    assert {each["attempt"] for each in found["members"]} == {1, 2}
    assert shown.returncode == once.returncode == 0, shown.stderr + once.stderr
    assert "pass@4" in shown.stdout
    assert ("1 attempt at each task" in once.stdout, once.stdout.count("pass@")) == (True, 1)
    text = (here / "m.attempts.txt").read_text()
    assert "[user]\nSet 'size' to" in text
    assert "put(key='size'" in text


def test_a_model_is_scored_without_a_run_file(here: Path):
    model = ("--policy", "Qwen/Qwen3-4B-Instruct-2507", "policy.tiny_random=true")
    asked = ("--attempts", "2", "--temperature", "0", "--tasks", "train", "--json")
    done = evaluated(*model, *asked)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"][0]["pass_k"] == 0
    assert {each["split"] for each in found["members"]} == {"train"}
    assert len({(each["task_id"], each["text"]) for each in found["members"]}) * 2 == len(
        found["members"]
    ), "a greedy model says the same twice"
    assert sum(found["failures"].values()) == len(found["members"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "either --policy, or --endpoint"),
        (("--endpoint", "http://127.0.0.1:9/v1"), 2, "--model go together"),
        (("--endpoint", "127.0.0.1", "--model", "m"), 2, "needs a URL"),
        (("--endpoint", "http://127.0.0.1:9/v1", "--model", "m"), 1, "check that the server runs"),
        (("--policy", "tiny", "--attempts", "0"), 2, "--attempts"),
        (("--policy", "nothing"), 1, "model 'nothing': needs to be a folder"),
        (("--policy", "tiny"), 1, "chat template"),
        (("--policy", "tiny", "tasks=none.jsonl"), 1, "none.jsonl has to be"),
        (("--policy", "tiny", "seedz=1"), 1, "seedz"),
        (("--policy", "tiny", "--fresh", "2"), 2, "do not go with --environment"),
    ],
)
def test_what_cannot_be_scored_is_refused(here: Path, words: tuple[str, ...], code: int, said: str):
    done = evaluated(*words)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr


def test_a_server_that_does_not_know_the_model_ends_the_evaluation(here: Path):
    with serving(puts) as server:
        server.then(*[fails(404, "the model m does not exist")] * 100)
        done = evaluated("--endpoint", server.base_url, "--model", "m")
    assert done.returncode == 1
    assert "the model m does not exist" in done.stderr


def test_empty_and_endless_answers_are_failures_not_errors(here: Path):
    with serving(puts) as server:
        server.then(says(""), says("x" * 100_000), says(None))
        done = evaluated("--endpoint", server.base_url, "--model", "m", "--attempts", "1")
    assert done.returncode == 0, done.stderr


def test_a_class_that_does_not_exist_is_named(here: Path):
    words = ("--environment", "scored_store:Nothing", "tasks=keyvalue.jsonl", "--policy", "tiny")
    done = answered("evaluate", *words)
    assert done.returncode == 1
    assert "Nothing" in done.stderr


def test_a_runs_version_is_scored_with_its_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = settings(RunConfig(name="trial"), environment={"use": "filesystem"})
    versions = write_versions(tmp_path / "w", config, [1])
    directory = write_run(tmp_path / "run", config, [*versions, *evolving.story()])
    shutil.move(tmp_path / "w/versions", directory.path / "versions")
    monkeypatch.chdir(tmp_path)
    asked = ("evaluate", "run", "--attempts", "3")
    greedy = answered(*asked, "--temperature", "0", "--json")
    assert greedy.returncode == 0, greedy.stderr
    members = json.loads(greedy.stdout)["members"]
    texts = {(each["task_id"], each["text"]) for each in members}
    assert len(members) == 3 * 4 == 3 * len(texts), "a greedy policy says the same each time"
    scored = json.loads(answered("evaluate", "run", "--json").stdout)["scores"]
    assert {each["task_id"] for each in members} == {each["task_id"] for each in scored}
    sampled = answered(*asked, "--tasks", "train")
    assert "version 1 of trial: 3 attempts at each task" in sampled.stdout
    written = (tmp_path / "version_1_of_trial.attempts.txt").read_text()
    assert written.count("===") == 3 * 6
    assert answered(*asked, "--fresh", "2").returncode == 2
    refused = answered(*asked, "--calls", "2").stderr
    assert "--calls: is for environment hdl, found environment filesystem" in refused
