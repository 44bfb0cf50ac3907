import base64
import json

import msgspec
import pytest

from coevolve.cli.attach_views.tail import tail
from coevolve.environments.tools.filesystem.grammar import uniform_task
from protocols import columns
from protocols.errors import RunError
from protocols.learning import PolicyVersion, Probe
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import seed, signal
from tests.exporting import tiny_rollout
from tests.following import taken

TASK = uniform_task(0, 0)


async def test_the_newest_records_are_printed_oldest_first(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed(), *(signal(f"s{n}") for n in range(4))])
    await tail(stage.subject(), "signal", count=2, follow=False, as_json=True)
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [(line["sequence"], line["signal_id"]) for line in lines] == [(4, "s2"), (5, "s3")]
    assert said.err == "evolving: not running; this is its state in the journal\n"


async def test_tail_of_a_running_run_prints_only_its_records(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([signal("s1")])
    await tail(stage.subject(running=True), "signal", count=2, follow=False, as_json=False)
    said = capsys.readouterr()
    assert said.out.startswith("      1  signal  signal_id=s1")
    assert said.err == ""


async def test_long_fields_are_cut_for_people(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write([msgspec.structs.replace(signal("s1"), rule="long " * 100)])
    await tail(stage.subject(), "signal", count=1, follow=False, as_json=False)
    line = capsys.readouterr().out
    assert line.count("long") == 31
    assert "...  evidence=" in line


async def test_a_step_report_shows_its_reward(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write([taken(3, 7, 8)])
    await tail(stage.subject(), "step_report", count=1, follow=False, as_json=False)
    assert "step_report  step=3  reward=1.5  groups=1  " in capsys.readouterr().out
    await tail(stage.subject(), "step_report", count=1, follow=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["metrics"]["critic/rewards/mean"] == 1.5


async def test_following_a_run_that_is_not_running_is_refused(stage: Stage):
    with pytest.raises(RunError, match="not running; continue it with"):
        await tail(stage.subject(), "signal", count=2, follow=True, as_json=False)


async def test_an_unknown_topic_is_refused_and_the_topics_are_listed(stage: Stage):
    with pytest.raises(RunError, match=r"no topic 'signals'; did you mean signal\?; topics: run_s"):
        await tail(stage.subject(), "signals", count=2, follow=False, as_json=False)
    with pytest.raises(RunError, match=r"no topic 'steps'; did you mean step_report\?"):
        await tail(stage.subject(), "steps", count=2, follow=False, as_json=False)


async def test_bytes_are_base64_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    probe = Probe(token_ids=columns.int32([1, 2]), logprobs=columns.float32([-0.5]))
    version = PolicyVersion(
        version=0, path="v", format="full", digest="", size_bytes=1, kept=True, probe=probe
    )
    stage.write([version])
    await tail(stage.subject(), "policy_version", count=1, follow=False, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert base64.b64decode(shown["probe"]["token_ids"]) == probe.token_ids


async def test_the_body_of_a_task_is_part_of_its_record(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed()])
    await tail(stage.subject(), "task", count=1, follow=False, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert [turn["instruction"] for turn in shown["body"]["turns"]] == [
        "List the files.",
        "Go to docs.",
    ]
    await tail(stage.subject(), "task", count=1, follow=False, as_json=False)
    assert "'instruction': 'List the files.'" in capsys.readouterr().out


async def test_a_rollouts_tokens_are_counted(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write([tiny_rollout(TASK, 0)])
    for as_json, said in ((True, '"tokens":{n},'), (False, "tokens={n}  ")):
        await tail(stage.subject(), "rollout", count=1, follow=False, as_json=as_json)
        assert said.replace("{n}", str(tiny_rollout(TASK, 0).tokens.count)) in (
            capsys.readouterr().out
        )
