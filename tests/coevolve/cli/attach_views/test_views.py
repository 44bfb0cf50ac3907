import json
from typing import ClassVar

import msgspec
import pytest

from coevolve.cli.attach_views.views import Origin, signals, tasks
from coevolve.environments.tools.filesystem.environment import Filesystem
from protocols.config import EvaluatorConfig
from protocols.evolution import SignalKind
from protocols.learning import Evaluation, TaskScore
from protocols.rollouts import Action
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.coevolve.history.test_rollouts import rollout
from tests.evolving import seed, settled, signal, stepped, story, visit

NOW_S = 4e9
"""Unix time long after every record."""


async def shown(stage: Stage, capsys, *, kind: SignalKind | None = None, count: int = 20) -> str:
    await signals(stage.subject(), kind=kind, count=count, now_s=NOW_S, as_json=False)
    return capsys.readouterr().out


async def test_signals_are_shown_with_their_outcomes(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(story())
    said = await shown(stage, capsys)
    assert "not running; this is its state in the journal; version 8" in said
    assert "signals, 2 of 2" in said
    assert "task seed-1" in said
    assert '"List the files."' in said
    assert "0.75" in said
    assert "P(drop > 0.2) = 0.97" in said
    assert "3 rollouts" in said
    assert "v3" in said
    assert " d ago" in said
    assert "tool mkdir" in said
    assert "waiting" in said
    words = " ".join(said.replace("│", " ").split())
    assert "3 candidates: 1 admitted, 1 parked, 1 refused" in words
    assert "(duplicate)" in words
    assert "its tasks since: 7/16" in words
    assert "flagged task: 6/8 1/8, since 8/8" in words


async def test_the_newest_signals_come_first_up_to_the_count(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed(), *(signal(f"s{n}", version=10 + n) for n in range(5))])
    said = await shown(stage, capsys, count=2)
    assert "signals, 2 of 5" in said
    assert said.index("v14") < said.index("v13")
    assert "v12" not in said


async def test_signals_can_be_limited_to_one_kind(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    said = await shown(stage, capsys, kind="rare")
    assert "signals, 1 of 1" in said
    assert "seed-1" not in said


async def test_a_signal_without_candidates_shows_the_reason(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    expired = settled("s1")
    stage.write([seed(), signal("s1"), expired])
    assert "nothing found" in await shown(stage, capsys)


async def test_signals_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    await signals(stage.subject(running=True), kind=None, count=20, now_s=NOW_S, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["run"], answer["running"], answer["version"]) == ("evolving", True, 8)
    newest, oldest = answer["signals"]
    assert newest["signal"]["signal_id"] == "s2"
    assert newest["outcome"] == "waiting"
    assert newest["settled"] is None
    assert oldest["signal"]["about"] == {"type": "on_task", "task_id": "seed-1"}
    assert oldest["instruction"] == "List the files."
    assert oldest["tasks"] == ["made-1"]
    assert [each["successes"] for each in oldest["visits"]] == [2, 5]
    assert [each["outcome"]["type"] for each in oldest["verdicts"]] == [
        "admitted",
        "parked",
        "refused",
    ]
    assert oldest["time_s"] > 1.6e9


async def test_tasks_are_shown_with_origin_label_success_and_steps(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(story())
    await tasks(stage.subject(), origin=None, count=20, as_json=False)
    said = capsys.readouterr().out
    assert "tasks, 2 of 2" in said
    newest, oldest = (line for line in said.splitlines() if "made-1" in line or "seed-1" in line)
    for word in ("made-1", "live", "forgetting by policy@0", "learnable", "5/8", "7 8"):
        assert word in newest
    for word in ("seed-1", "live", "seed grammar:static", "8/8", "3 7"):
        assert word in oldest
    assert "2: List the files." in oldest
    assert "gap" not in said


async def test_tasks_can_be_limited_to_one_origin(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    await tasks(stage.subject(), origin="seed", count=20, as_json=False)
    seeds = capsys.readouterr().out
    assert ("seed-1" in seeds, "made-1" in seeds) == (True, False)
    await tasks(stage.subject(), origin="synthesized", count=20, as_json=False)
    made = capsys.readouterr().out
    assert ("seed-1" in made, "made-1" in made) == (False, True)
    await tasks(stage.subject(), origin="seed", count=20, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["count"], [each["task_id"] for each in answer["tasks"]]) == (1, ["seed-1"])


@pytest.mark.parametrize(("origin", "count"), [("seed", 3), ("synthesized", 1), (None, 4)])
async def test_all_tasks_of_the_origin_are_counted(
    stage: Stage, capsys: pytest.CaptureFixture[str], origin: Origin | None, count: int
):
    stage.write([*story(), seed("seed-2"), seed("seed-3")])
    await tasks(stage.subject(), origin=origin, count=1, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["count"], len(answer["tasks"])) == (count, 1)


async def test_tasks_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    await tasks(stage.subject(), origin=None, count=1, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["count"] == 2
    (task,) = answer["tasks"]
    assert task["task_id"] == "made-1"
    assert task["life"] == "live"
    assert task["signal_kind"] == "forgetting"
    assert task["label"] == "learnable"
    assert task["instructions"] == ["List the files.", "Go to docs."]
    assert task["trained"] == [
        {"step": 7, "use": "policy_gradient"},
        {"step": 8, "use": "policy_gradient"},
    ]


def evaluated(version: int, **scores: tuple[int, int]) -> Evaluation:
    """Return an evaluation with the results on trained tasks, as given and under another name."""

    def score(task_id: str, passed: int) -> TaskScore:
        return TaskScore(task_id=task_id, turns_passed=passed, turns_total=1)

    names = {name.replace("_", "-"): results for name, results in scores.items()}
    return Evaluation(
        version=version,
        scores=(),
        errors=0,
        wall_s=1.0,
        trained=tuple(score(name, given) for name, (given, _) in names.items()),
        instances=tuple(score(f"{name}~1", fresh) for name, (_, fresh) in names.items()),
    )


async def test_tasks_are_shown_with_the_instance_gap_that_evaluations_measured(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.config = msgspec.structs.replace(stage.config, evaluator=EvaluatorConfig(fresh=2))
    scored = [evaluated(8, seed_1=(1, 0)), evaluated(9, seed_1=(1, 1), other=(0, 1))]
    stage.write([*story(), *scored])
    await tasks(stage.subject(), origin=None, count=20, as_json=False)
    said = capsys.readouterr().out
    assert "gap" in said
    (line,) = (line for line in said.splitlines() if "seed-1" in line)
    assert line.rstrip("│ ").endswith("+50 of 2")
    await tasks(stage.subject(), origin=None, count=20, as_json=True)
    made, given = json.loads(capsys.readouterr().out)["tasks"]
    assert made["instance_gap"] is None
    assert given["instance_gap"] == {"mean": 0.5, "evaluations": 2}


async def test_a_run_without_a_pool_shows_its_tasks_without_a_life(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed()])
    await tasks(stage.subject(arm="uniform"), origin=None, count=20, as_json=True)
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert task["life"] is None


async def test_a_run_without_records_shows_empty_tables(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    assert "signals, 0 of 0" in await shown(stage, capsys)
    await tasks(stage.subject(), origin=None, count=20, as_json=False)
    assert "tasks, 0 of 0" in capsys.readouterr().out


async def test_of_many_training_steps_the_newest_are_shown(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed(), *(stepped(n, "seed-1") for n in range(1, 31))])
    await tasks(stage.subject(), origin=None, count=20, as_json=False)
    said = capsys.readouterr().out
    assert "30: ... 25 26 27 28 29 30" in said


class Secret(Filesystem):
    """An environment whose licence withholds what tasks contain."""

    withheld: ClassVar[str] = "The licence forbids it"


@pytest.mark.parametrize("withheld", [False, True])
async def test_a_suspect_task_is_named_with_the_call_on_which_rollouts_agree_unless_it_is_withheld(
    stage: Stage, capsys: pytest.CaptureFixture[str], withheld: bool
):
    if withheld:
        environment = {**stage.config.environment, "use": f"{__name__}:{Secret.__name__}"}
        stage.config = msgspec.structs.replace(stage.config, environment=environment)
    summary = visit("seed-1", 0, version=2)
    call = Action(turn=0, text="pwd()", result="/", failed=False)
    wrong = [
        msgspec.structs.replace(
            rollout(summary, index, "pwd()"), actions=(call,), turns_passed=0, turns_total=2
        )
        for index in range(8)
    ]
    stage.write([seed(), *wrong, summary])
    await tasks(stage.subject(), origin=None, count=20, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "suspect task seed-1: 0 of 8 rollouts solved it" in said
    place = "See turn 1 of 2." if withheld else "See turn 1 of 2: ls(), not pwd()."
    assert f"agree on another call than the reference. {place}" in said
    await tasks(stage.subject(), origin=None, count=20, as_json=True)
    (told,) = json.loads(capsys.readouterr().out)["tasks"]
    assert told["suspect"] == {
        "why": (
            "Nothing solved it, and the newest 8 rollouts agree on another call than the reference."
        ),
        "successes": 0,
        "attempts": 8,
        "turn": 1,
        "reference": None if withheld else "ls()",
        "otherwise": None if withheld else "pwd()",
    }
