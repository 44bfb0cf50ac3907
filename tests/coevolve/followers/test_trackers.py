"""Each tracker's own offline files hold each point once, whatever is killed between."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coevolve.followers.said import folder_of
from coevolve.history.metric_docs import described
from protocols.config import RunConfig
from protocols.control import RunFinished
from protocols.learning import Checkpoint
from tests.evolving import made, seed
from tests.following import FollowedFolder, acted, following, published, scored, taken

REPORT = "<p>the report</p>"
REWARD = "critic/rewards/mean"

LATER = ("wandb", "trackio")
"""Trackers whose library writes to disk some time after it was called."""


class Held(NamedTuple):
    """What a tracker's files hold, as its own library or its format says."""

    numbers: list[int]
    """The number of each point, in order."""

    rewards: list[tuple[int, float]]
    """Step and mean reward."""

    config: Mapping[str, Any]
    texts: str
    """Tables and artifacts, as text."""

    names: set[str]
    """Names of artifacts."""


def tensorboard(folder: Path) -> Held:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    about = events.SummaryMetadata(REWARD).summary_description
    assert about.startswith("mean reward of the rollouts trained on")
    texts = {
        tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in ("config", "rollouts")
    }
    return Held(
        numbers=[int(each.value) for each in events.Scalars("coevolve/point")],
        rewards=[(each.step, each.value) for each in events.Scalars(REWARD)],
        config=json.loads(texts["config"].strip("`").removeprefix("json")),
        texts=texts["rollouts"],
        names=set(),
    )


def wandb(folder: Path) -> Held:
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    from coevolve.followers.built_in.wandb import files, records

    rows: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    names: set[str] = set()
    notes: set[str] = set()
    for content in (content for file in files(folder) for content in records(file)):
        record = Record.FromString(content)
        row = {
            "/".join(each.nested_key) or each.key: json.loads(each.value_json)
            for each in record.history.item
        }
        rows += [row] if row else []
        config |= {x.key: json.loads(x.value_json) for x in record.run.config.update}
        notes |= {record.run.notes} - {""}
        names |= {record.request.log_artifact.artifact.type or record.artifact.type} - {""}
    assert notes == {described()}
    tables = [path.read_text() for path in folder.rglob("*.table.json")]
    return Held(
        numbers=[row["_step"] for row in rows],
        rewards=[(row["step"], row[REWARD]) for row in rows if REWARD in row],
        config=config,
        texts="\n".join(tables),
        names=names,
    )


def mlflow(folder: Path) -> Held:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    (experiment,) = (e for e in client.search_experiments() if e.name == "coevolve")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["learner.steps"]
    numbers = client.get_metric_history(run.info.run_id, "coevolve.point")
    rewards = client.get_metric_history(run.info.run_id, REWARD)
    files = [path for path in folder.rglob("artifacts/**/*") if path.is_file()]
    texts = {path.name: path.read_text() for path in files}
    assert texts["metrics.md"] == described()
    return Held(
        numbers=sorted(int(each.value) for each in numbers),
        rewards=sorted((each.step, each.value) for each in rewards),
        config=json.loads(texts["config.json"]),
        texts="\n".join(texts.values()),
        names={"report"} & {path.stem for path in files}
        | {"checkpoint"} & {path.parts[-3].removesuffix("s") for path in files},
    )


def trackio(folder: Path) -> Held:
    (file,) = folder.glob("*.db")
    with sqlite3.connect(file) as database:
        rows = [
            (step, json.loads(metrics))
            for step, metrics in database.execute("select step, metrics from metrics order by step")
        ]
        ((config,),) = database.execute("select config from configs")
        names = {name for (name,) in database.execute("select name from artifacts")}
    return Held(
        numbers=[step for step, _ in rows],
        rewards=[(row["learner/step"], row[REWARD]) for _, row in rows if REWARD in row],
        config=json.loads(config),
        texts=json.dumps([row for _, row in rows]),
        names=names,
    )


@pytest.mark.parametrize(
    ("name", "held", "artifacts"),
    [
        ("tensorboard", tensorboard, set()),
        ("wandb", wandb, {"report", "checkpoint"}),
        *(
            pytest.param(name, held, {"report", "checkpoint"}, marks=pytest.mark.exhaustive)
            for name, held in (("mlflow", mlflow), ("trackio", trackio))
        ),
    ],
)
def test_a_tracker_has_each_point_once_although_it_is_killed(
    tmp_path: Path,
    quickstart: RunConfig,
    name: str,
    held: Callable[[Path], Held],
    artifacts: set[str],
):
    settings = {"use": [name], "offline": True, "checkpoints": True}
    run = FollowedFolder(tmp_path / "run", quickstart, trackers=settings)
    rollouts = run.write(acted("t", 0), acted("t", 1))
    messages = [taken(1), taken(2), taken(3, *rollouts), scored(3, 2)]
    run.write(*messages)
    if name in LATER:
        with following(run, name) as follower:
            assert follower.close() == 0  # as if its launcher had been killed
    lost = [taken(5), taken(6)]
    with following(run, name) as follower:
        run.write(taken(4))
        follower.tell()
        follower.said()
        run.write(*lost)
        follower.tell()  # and it is killed at once
    checkpoint = run.path / "checkpoints/step_6"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights").write_text("0.5")
    last = [taken(7), scored(7, 3)]
    kept = Checkpoint(step=6, path="checkpoints/step_6", digest="", size_bytes=3)
    run.write(kept, *last, RunFinished(steps=7))
    run.directory.report.write_text(REPORT)
    with following(run, name) as follower:
        assert follower.end() == 0

    found = held(folder_of(run.path, name))
    assert found.numbers == list(range(1, 10))
    assert found.rewards == [(step, step / 2) for step in range(1, 8)]
    assert found.config["name"] == "followed"
    assert "ls('1')" in found.texts
    assert found.names >= artifacts


def test_ones_own_callbacks_are_called_in_order_and_go_on_after_a_kill(
    tmp_path: Path, quickstart: RunConfig
):
    name = "tests.own_trackers:Calling"
    run = FollowedFolder(tmp_path / "run", quickstart, trackers={"use": [name]})
    run.write(seed(), published(0), taken(1), published(1), made("task-c", "c", "s"), taken(2))
    with following(run, name) as follower:
        follower.kill()
    run.write(published(2), taken(3))
    with following(run, name) as follower:
        assert follower.end() == 0
    assert (folder_of(run.path, name) / "calls").read_text().splitlines() == [
        "version 0 in versions/0",
        "step 1 of 1 group",
        "version 1 in versions/1",
        "task task-c",
        "step 2 of 1 group",
        "version 2 in versions/2",
        "step 3 of 1 group",
    ]
