"""Evaluations from the command line: of a run, of a run file, at an endpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.policy.tiny.model import write_model
from coevolve.journal.journal import Journal
from coevolve.models.tiny_random.resolve import MODEL
from coevolve.runs import starting
from protocols.config import RunConfig
from tests import evolving
from tests.chat_server import Messages, serving
from tests.commands import answered
from tests.conftest import ROOT
from tests.exporting import settings, watched, write_run, write_versions

pytestmark = pytest.mark.hdl

RUN_FILE = ROOT / "configs" / "hdl_tiny.yaml"
DESIGNS = ("vend_fsm", "rr_arbiter")
"""One of each split."""


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two designs with one mutant each."""
    folder = tmp_path_factory.mktemp("designs")
    for name in DESIGNS:
        shutil.copytree(hardware.DESIGNS / name, folder / name)
        path = folder / name / "mutants.yaml"
        path.write_bytes(msgspec.yaml.encode(msgspec.yaml.decode(path.read_bytes())[:1]))
    return folder


def printed(*words: object) -> dict[str, Any]:
    answer = answered("evaluate", *map(str, words), "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the files, but for the one where LMDB notes who reads."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock.mdb")
    return {path: path.read_bytes() for path in files}


def test_a_model_before_training_is_compared_at_equal_budgets(designs: Path):
    asked = ("--config", RUN_FILE, "--designs", designs, "--calls", 2, "--attempts", 2)
    report = printed(*asked)
    assert report["settings"]["writer"] == "hdl_tiny before training"
    assert [each["split"] for each in report["splits"]] == ["train", "held_out"]
    for split in report["splits"]:
        assert split["designs"] == 1
        scores = split["scores"]
        assert {name: score["calls"] for name, score in scores.items()} == {
            "agentic": 2,
            "direct": 2,
            "direct, 1 call": 1,
            "long random runs": 2,
            "random programs": 2,
            "structural": 2,
        }
        assert all(score["sim_pass"] == 1 for score in scores.values())
        assert all(0 < score["coverage"] < 1 for score in scores.values())
        assert all(score["bugs"] in (0, 0.5, 1) for score in scores.values())
        assert scores["direct"]["coverage"] >= scores["direct, 1 call"]["coverage"]
        (gain,) = [
            each
            for each in split["differences"]
            if (each["of"], each["minus"], each["measure"]) == ("agentic", "direct", "coverage")
        ]
        expected = scores["agentic"]["coverage"] - scores["direct"]["coverage"]
        assert gain["mean"] == gain["low"] == gain["high"] == pytest.approx(expected)
    assert printed(*asked) == report


def test_a_version_of_a_run_is_evaluated_and_nothing_of_the_run_is_changed(
    designs: Path, tmp_path: Path, quickstart: RunConfig
):
    hdl = {"form": "stimulus", "evaluation_rounds": 1, "designs": str(designs)}
    sizes = {"max_tokens": 128, "max_call_tokens": 16}
    config = settings(quickstart, rollout=sizes, policy={"model": "tiny_hdl"})
    config = msgspec.structs.replace(config, environment={"use": "hdl"} | hdl)
    folder = tmp_path / "trial"
    directory = starting.create(folder, config)
    write_model(0, folder / MODEL)
    journal = Journal.open(directory.store)
    evolving.write(journal, write_versions(folder, directory.config(), (1, 2)))
    journal.close()
    before = contents(folder)
    asked = ("--runs", tmp_path, "--no-bugs", "--no-baselines", "--split", "held_out")
    report = printed("trial", *asked, "--attempts", 1)
    assert report["settings"]["writer"] == "version 2 of trial"
    assert report["settings"]["temperature"] == 1
    assert set(report["splits"][0]["scores"]) == {"agentic", "direct", "direct, 1 call"}
    assert report["splits"][0]["scores"]["agentic"]["bugs"] is None
    assert contents(folder) == before
    refused = answered("evaluate", "trial", *map(str, asked), "--version", "7")
    assert refused.returncode == 1
    assert "version 7" in refused.stderr


def test_held_out_designs_are_scored_under_other_names(designs: Path, tmp_path: Path):
    text = RUN_FILE.read_text().replace("use: hdl", f"use: hdl\n  designs: {designs}")
    run_file = tmp_path / "few.yaml"
    run_file.write_text(text.replace("evaluation_rounds: 6", "evaluation_rounds: 1"))
    asked = ("--config", run_file, "--fresh", 2)
    report = printed(*asked)
    assert {each["task_id"] for each in report["scores"]} == {*DESIGNS}
    (compared,) = report["fresh"]
    assert compared["tasks"] == "held out"
    assert (compared["given"]["tasks"], compared["instances"]) == (1, 2)
    assert all(0 < compared[side]["mean"] < 1 for side in ("given", "fresh"))
    refused = answered("evaluate", *map(str, asked), "--attempts", "2")
    assert refused.returncode == 2
    assert "--attempts does not go with --fresh" in refused.stderr


def test_the_best_version_of_a_run_is_scored(tmp_path: Path, quickstart: RunConfig):
    config = settings(quickstart, environment={"held_out": 2})
    versions = write_versions(tmp_path / "runs" / "weights", config, (1, 2))
    directory = write_run(tmp_path / "trial", config, [*versions, watched(1, 3), watched(2, 1)])
    (tmp_path / "runs" / "weights" / "versions").rename(directory.path / "versions")
    report = printed("trial", "--runs", tmp_path, "--version", "best")
    assert report["policy"] == "version 1 of trial"
    assert len(report["scores"]) == 2


def test_a_model_at_an_endpoint_writes_what_it_is_asked_for(
    designs: Path, monkeypatch: pytest.MonkeyPatch
):
    def brain(messages: Messages) -> str:
        if len(messages) > 2:
            return "I would rather not."
        return "Here it is.\n```stimulus\nrst 2\nstep 20\n```\n"

    monkeypatch.setenv("A_KEY", "secret")
    with serving(brain) as server:
        asked = ("--endpoint", server.base_url, "--model", "large", "--key-variable", "A_KEY")
        small = ("--form", "stimulus", "--designs", designs, "--calls", 2, "--attempts", 1)
        free = ("--no-bugs", "--no-baselines", "--usd-per-million", 1000, 2000)
        report = printed(*asked, *small, *free)
    assert report["settings"]["writer"] == "large"
    assert report["settings"]["temperature"] == 0.7
    for split in report["splits"]:
        scores = split["scores"]
        assert (scores["agentic"]["calls"], scores["direct"]["calls"]) == (1, 2)
        assert scores["agentic"]["coverage"] == scores["direct"]["coverage"] > 0
    assert {each.authorization for each in server.requests} == {"Bearer secret"}
    assert {each.body["max_tokens"] for each in server.requests} == {8192}
    assert not any("response_format" in each.body for each in server.requests)
    cost = report["cost"]
    assert cost["answers"] == len(server.requests) == 6
    usd = (1000 * cost["prompt_tokens"] + 2000 * cost["answer_tokens"]) / 1e6
    assert cost["usd"] == pytest.approx(usd)


def test_what_cannot_be_evaluated_is_refused_in_words(tmp_path: Path, quickstart: RunConfig):
    starting.create(tmp_path / "tools", quickstart)
    answer = answered("evaluate", "tools", "--runs", str(tmp_path), "--calls", "3")
    assert answer.returncode == 1
    assert "--calls: is for environment hdl, found environment filesystem; leave it out" in (
        answer.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a RUN or --config FILE"),
        (["--calls", "2"], "give a RUN, --config or --endpoint"),
        (["trial", "--config", "a.yaml"], "leave --config out"),
        (["trial", "--model", "large"], "--endpoint and --model go together"),
        (["trial", "--form", "patch"], "--form and --rules are for an --endpoint"),
        (["--config", "a.yaml", "--rules"], "--form and --rules are for an --endpoint"),
        (["--endpoint", "somewhere", "--model", "large"], "needs a URL such as"),
        (["trial", "--attempts", "0"], "0 is not in the range 1<=x<=1000000"),
        (["trial", "--temperature", "-1"], "-1.0 is not in the range 0<=x<=100"),
    ],
)
def test_a_wrong_command_is_told_apart_from_a_failure(arguments: list[str], said: str):
    answer = answered("evaluate", *arguments)
    assert answer.returncode == 2
    assert said in answer.stderr
