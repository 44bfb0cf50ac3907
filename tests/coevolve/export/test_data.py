import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import msgspec
import pyarrow.parquet as pq
import pytest

from coevolve.environments.registry import environment_of, environment_type, names
from coevolve.environments.tools.export.conversation import reference
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.filesystem.tokenizer import END
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.history.directory import RunDirectory
from coevolve.models.model_folder import TINY_FOLDER
from protocols import columns
from protocols.config import RunConfig
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.tasks import Instantiated, Task, attempted
from tests import evolving
from tests.coevolve.export.conftest import Export, Refusal
from tests.commands import answered
from tests.exporting import settings, tiny_rollout, write_run

ROOT = Path(__file__).parents[3]
TASK = next(task for n in range(99) if len(tool_task(task := uniform_task(0, n)).turns) == 3)
SHORT = next(task for n in range(99) if len(tool_task(task := uniform_task(1, n)).turns) == 1)
BODY = tool_task(TASK)


def story(config: RunConfig) -> list[Message]:
    """Return two grammar tasks with rollouts of every ending, a held-out task and a lineage."""
    first = len(BODY.turns[0].reference)
    held_out = held_out_tasks(config)[0]
    return [
        *(TASK, SHORT, held_out),
        tiny_rollout(TASK, 0),
        tiny_rollout(TASK, 1, ended="malformed", passed=2, cut=1, tail=(END,)),
        tiny_rollout(TASK, 2, ended="too_long", passed=2, cut=1, tail=(60, 61, 62)),
        tiny_rollout(
            TASK, 3, ended="too_many_calls", passed=0, actions=first - 1, cut=cut_after(TASK)
        ),
        tiny_rollout(SHORT, 0),
        tiny_rollout(SHORT, 1),
        tiny_rollout(SHORT, 2, ended="wrong", passed=0),
        tiny_rollout(SHORT, 3, ended="too_long", passed=0, cut=1),
        *evolving.story(),
    ]


def held_out_tasks(config: RunConfig) -> Sequence[Task]:
    tasks = environment_of(config).scored_tasks()
    assert {task.split for task in tasks} == {"held_out"}
    return tasks


def cut_after(task: Task) -> int:
    """Return the number of tokens of the reference after the last call of its first turn."""
    whole = tiny_rollout(task, 0).tokens
    ends = [at for at, token in enumerate(columns.from_int32(whole.token_ids)) if token == END]
    return whole.count - ends[len(tool_task(task).turns[0].reference) - 1] - 1


@pytest.fixture
def run(quickstart: RunConfig, tmp_path: Path) -> RunDirectory:
    config = settings(quickstart)
    return write_run(tmp_path / "run", config, story(config))


def loaded(folder: Path, cache: Path) -> Sequence[dict[str, Any]]:
    """Return the rows as a user of `datasets` loads them, with nothing but the card."""
    rows = datasets.load_dataset(str(folder), split="train", cache_dir=str(cache))
    assert isinstance(rows, datasets.Dataset)
    return rows.to_list()


def compact(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages without the nulls that a table adds for missing fields."""
    return [{name: value for name, value in each.items() if value is not None} for each in messages]


def as_json(task: Task) -> list[dict[str, Any]]:
    return json.loads(msgspec.json.encode(reference(tool_task(task))))


def test_rollouts_are_exported_token_by_token_with_their_chats(
    run: RunDirectory, export: Export, tmp_path: Path
):
    out = tmp_path / "rollouts"
    assert export(run.path, "rollouts", "--to", out) == f"{out}: 8 rollouts\n"
    rows = loaded(out, tmp_path / "cache")
    made = [each for each in story(run.config()) if isinstance(each, Rollout)]
    assert len(rows) == len(made) == 8
    for row, rollout in zip(rows, made, strict=True):
        assert columns.int32(row["token_ids"]) == rollout.tokens.token_ids
        assert bytes(row["mask"]) == rollout.tokens.mask
        assert columns.float32(row["logprobs"]) == rollout.tokens.logprobs
        assert columns.int32(row["versions"]) == rollout.tokens.versions
        assert row["cache_versions"] == row["versions"]
        for name in ("task_id", "group_id", "index", "reward", "ended", "version_min", "seed"):
            assert row[name] == getattr(rollout, name)
        names = {tool["function"]["name"] for tool in json.loads(row["tools"])}
        assert {"ls", "cd", "cat"} <= names
    whole, malformed, too_long, many, *_, full = rows
    assert compact(full["messages"]) == as_json(SHORT)[:-1]
    assert compact(whole["messages"]) == as_json(TASK)
    assert whole["written"][-1] == "<d>"
    assert [text.removesuffix("<e>") for text in whole["written"] if text != "<d>"] == [
        call for turn in BODY.turns for call in turn.reference
    ]
    assert compact(malformed["messages"])[:-1] == as_json(TASK)[:-1]
    assert compact(malformed["messages"])[-1] == {"role": "assistant", "content": "<e>"}
    assert too_long["messages"][-1]["content"] == too_long["written"][-1] != ""
    assert many["messages"][-1]["tool_calls"]
    assert (
        sum(message["role"] == "tool" for message in many["messages"])
        == len(BODY.turns[0].reference) - 1
    )


def test_a_rollout_of_an_instance_is_exported_with_the_instances_names(
    quickstart: RunConfig, export: Export, tmp_path: Path
):
    instance = msgspec.structs.replace(
        SHORT,
        task_id=attempted(TASK.task_id, 7),
        origin=Instantiated(root=TASK.task_id, instance=7),
    )
    rollout = msgspec.structs.replace(tiny_rollout(instance, 0), task_id=TASK.task_id, instance=7)
    run = write_run(tmp_path / "run", settings(quickstart), [TASK, instance, rollout])
    assert export(run.path, "rollouts", "--to", tmp_path / "rollouts").endswith(": 1 rollouts\n")
    (row,) = loaded(tmp_path / "rollouts", tmp_path / "cache")
    assert (row["task_id"], row["instance"]) == (TASK.task_id, 7)
    assert compact(row["messages"]) == as_json(SHORT)
    assert export(run.path, "sft", "--to", tmp_path / "sft").startswith(
        f"{tmp_path / 'sft'}: 1 references and 1 rollouts"
    )


def test_the_pool_is_exported_with_lineage_and_status(
    quickstart: RunConfig, export: Export, tmp_path: Path
):
    config = msgspec.structs.replace(settings(quickstart), arm="full")
    run = write_run(tmp_path / "run", config, story(config))
    out = tmp_path / "pool"
    assert export(run.path, "pool", "--to", out) == f"{out}: 4 tasks\n"
    rows = {row["task_id"]: row for row in loaded(out, tmp_path / "cache")}
    assert set(rows) == {TASK.task_id, SHORT.task_id, "seed-1", "made-1"}
    assert compact(rows[TASK.task_id]["messages"]) == as_json(TASK)
    assert msgspec.json.decode(rows[TASK.task_id]["task"], type=ToolTask) == BODY
    made = rows["made-1"]
    lineage = ("signal_id", "signal_kind", "candidate_id", "exploration_id", "synthesizer", "label")
    assert [made[name] for name in lineage] == [
        *("s1", "forgetting", "c1", "e-s1", "policy@0", "learnable")
    ]
    assert (made["probe_successes"], made["probe_rollouts"]) == (2, 4)
    assert (made["visits"], made["successes"], made["rollouts"]) == (2, 7, 16)
    assert (made["origin"], made["status"], made["trained_steps"]) == ("synthesized", "live", 2)
    assert made["weight"] > 0
    seed = rows["seed-1"]
    assert (seed["origin"], seed["source"], seed["weight"]) == ("seed", "grammar:static", None)
    assert [m["role"] for m in seed["messages"]] == ["user", "assistant", "assistant"] * 2


def test_a_verl_table_has_prompts_and_the_data_of_the_reward(
    run: RunDirectory, export: Export, tmp_path: Path
):
    out = tmp_path / "verl"
    assert export(run.path, "verl", "--to", out) == f"{out}: 4 tasks\n"
    rows = loaded(out, tmp_path / "cache")
    row = next(row for row in rows if row["extra_info"]["task_id"] == TASK.task_id)
    assert set(row) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert row["data_source"] == "coevolve/filesystem"
    assert row["prompt"] == [{"role": "user", "content": BODY.turns[0].instruction}]
    assert row["reward_model"]["style"] == "rule"
    assert json.loads(row["reward_model"]["ground_truth"]) == [
        list(turn.reference) for turn in BODY.turns
    ]
    assert row["extra_info"]["split"] == "train"
    assert msgspec.json.decode(row["extra_info"]["task"], type=ToolTask) == BODY


def test_each_solution_for_supervised_training_is_complete_and_appears_once(
    run: RunDirectory, export: Export, tmp_path: Path
):
    out = tmp_path / "sft"
    assert export(run.path, "sft", "--to", out) == (
        f"{out}: 2 references and 2 rollouts; 2 references have no recorded results\n"
    )
    lines = [json.loads(line) for line in (out / "train.jsonl").open()]
    assert [(line["solution"], line["task_id"]) for line in lines] == [
        ("reference", TASK.task_id),
        ("reference", SHORT.task_id),
        ("rollout", TASK.task_id),
        ("rollout", SHORT.task_id),
    ]
    for line in lines:
        assert line["messages"] == as_json(TASK if line["task_id"] == TASK.task_id else SHORT)
        assert json.loads(line["tools"])
    rows = loaded(out, tmp_path / "cache")
    assert [compact(row["messages"]) for row in rows] == [line["messages"] for line in lines]


def test_no_held_out_task_is_exported(run: RunDirectory, export: Export, tmp_path: Path):
    worlds = {tool_task(task).world for task in held_out_tasks(run.config())}
    for kind in ("pool", "verl"):
        export(run.path, kind, "--to", tmp_path / kind)
        table = pq.read_table(tmp_path / kind / "train.parquet").to_pylist()
        bodies = [row["task"] if kind == "pool" else row["extra_info"]["task"] for row in table]
        assert worlds
        assert bodies
        assert not worlds.intersection(json.loads(body)["world"] for body in bodies)


def test_a_live_run_is_exported_while_its_journal_is_being_written(
    run: RunDirectory, export: Export, tmp_path: Path
):
    with open_elsewhere(run):
        assert "4 tasks" in export(run.path, "pool", "--to", tmp_path / "pool")


class open_elsewhere:  # noqa: N801
    """Hold the journal open for writing in another process."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run

    def __enter__(self) -> None:
        code = (
            "import sys; from pathlib import Path; from coevolve.journal.journal import Journal; "
            "journal = Journal.open(Path(sys.argv[1])); print('open', flush=True); "
            "sys.stdin.readline(); journal.close()"
        )
        self._writer = subprocess.Popen(
            [sys.executable, "-c", code, str(self._run.store)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._writer.stdout is not None
        assert self._writer.stdout.readline() == b"open\n"

    def __exit__(self, *failure: object) -> None:
        self._writer.communicate(b"\n", timeout=30)


def test_parquet_without_its_package_is_refused_with_the_command(run: RunDirectory, tmp_path: Path):
    code = (
        "import sys; sys.modules['pyarrow'] = None; from coevolve.cli.main import main; "
        "sys.exit(main(['export', *sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    pool = subprocess.run(
        [*command, "pool", "--to", str(tmp_path / "pool")], capture_output=True, text=True, cwd=ROOT
    )
    assert pool.returncode == 1
    assert (
        "needs the package pyarrow, which is not installed; pip install 'coevolve[export]'"
        in pool.stderr
    )
    sft = subprocess.run(
        [*command, "sft", "--to", str(tmp_path / "sft")], capture_output=True, text=True, cwd=ROOT
    )
    assert sft.returncode == 0, sft.stderr
    assert not (tmp_path / "pool").exists()


def test_an_unknown_table_is_refused_and_the_tables_are_listed(
    run: RunDirectory, refusal: Refusal, tmp_path: Path
):
    said = refusal(run.path, "transitions", "--to", tmp_path / "out")
    assert "environment filesystem has no table transitions; its tables: pool, rollouts" in said
    assert not (tmp_path / "out").exists()


def test_help_names_the_tables_of_every_environment():
    said = answered("export", "--help").stdout
    for use in names():
        for name in environment_type(use).exports:
            assert f"\n  {name} " in said


def test_nothing_is_left_of_an_export_that_fails(
    quickstart: RunConfig, refusal: Refusal, tmp_path: Path
):
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((TINY_FOLDER / name).read_bytes())
    config = settings(quickstart, policy={"model": str(model)})
    run = write_run(tmp_path / "run", config, story(config))
    assert "tokenizer" in refusal(run.path, "rollouts", "--to", tmp_path / "out" / "rollouts")
    assert not list((tmp_path / "out").glob("*")) + list((tmp_path / "out").glob(".*"))


def test_tables_are_exported_without_loading_torch():
    code = (
        "import sys, coevolve.cli.export, coevolve.export.exporting, "
        "coevolve.environments.tools.export.pool, "
        "coevolve.environments.tools.export.verl; print(*sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert not {"ray", "torch", "transformers", "actors"} & set(finished.stdout.split())
