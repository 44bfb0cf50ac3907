import json
from typing import cast

import msgspec
import pytest

from coevolve.cli.attach_views.status import status
from protocols.control import PartFailed, RunPaused
from protocols.evolution import SynthesizerSwapped
from protocols.learning import NothingDelivered, WeightsVerified, WeightSyncAlarm
from protocols.synthesizers import PolicyModel
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import settled, signal, story, swapped
from tests.exporting import scored
from tests.fakes import ScriptPart


def rows(said: str, first: str) -> list[list[str]]:
    """Return the cells of the rows that begin with ``first``, in all tables."""
    lines = [line for line in said.splitlines() if line.startswith(f"│ {first} ")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


async def test_status_without_a_live_run_is_from_the_journal(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([*story(), scored(8, 3), PartFailed(part="learner", reason="it was killed")])
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    assert said.startswith("evolving: not running; this is its state in the journal; step 8 of 120")
    assert said.index("success, %") < said.index("synthesizer: the policy")
    assert "does not offer" not in said
    assert "synthesizer: the policy with its start weights (policy@0)" in said
    assert "learner restarted: it was killed" in said
    assert "waits for" not in said
    assert rows(said, "policy@0") == [
        ["policy@0", "3", "1", "1", "1", "33 %", "100 %"],
        ["policy@0", "2", "400", "400", "1.00", "1.0000"],
    ]
    assert "duplicate" in said


async def test_status_of_a_live_run_shows_its_parts_and_its_journal(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([*story(), PartFailed(part="learner", reason="it was killed")])
    await status(stage.subject(running=True), as_json=False)
    said = capsys.readouterr().out
    assert "evolving: running; step 8 of 120" in said
    assert rows(said, "learner") == [
        ["learner", "", "", "0", "0", "complete groups (5 of 8)", "7 s"],
        ["learner", "1", "12 s", "34 MB", "56 MB", "1"],
    ]
    assert "newest sequence" not in said
    await status(stage.subject(running=True), as_json=False, journal=True)
    said = capsys.readouterr().out
    assert "newest sequence" in said
    assert "topic signal" in said


async def test_a_part_that_does_not_answer_has_no_process_id(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    subject = stage.subject(running=True)
    (part,) = subject.actors().parts
    cast("ScriptPart", part).alive = False
    await status(subject, as_json=True)
    assert json.loads(capsys.readouterr().out)["parts"][0]["pid"] is None
    await status(subject, as_json=False)
    _, process = rows(capsys.readouterr().out, "learner")
    assert process == ["learner", "", "", "", "", "0"]


async def test_status_shows_a_pause_and_the_new_synthesizer(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([*story(), swapped(), RunPaused(run_id="run")])
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    assert "paused; continue with `attach resume`" in said
    assert "glm at http://127.0.0.1:9/v1 (glm), since version 8, before that policy@0" in said


async def test_of_several_swaps_the_newest_says_who_synthesizes(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    again = SynthesizerSwapped(request_id="r2", model=PolicyModel(), synthesizer="policy")
    stage.write([*story(), swapped(), again])
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    assert "synthesizer: the policy with its start weights (policy), since version 8" in said
    assert "before that glm" in said


async def test_signals_are_counted_by_what_became_of_them(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([*story(), signal("s8", kind="rare"), settled("s8", kind="rare")])
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    assert rows(said, "forgetting") == [["forgetting", "1", "0", "0", "1"]]
    assert rows(said, "rare") == [["rare", "2", "1", "1", "0"]]


async def test_status_says_that_an_arm_synthesizes_no_tasks(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    await status(stage.subject(arm="static"), as_json=False)
    assert "arm static: synthesizes no tasks" in capsys.readouterr().out
    await status(stage.subject(arm="static"), as_json=True)
    assert json.loads(capsys.readouterr().out)["synthesizer"] is None


async def test_status_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    await status(stage.subject(running=True), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["running"], answer["paused"]) == (True, False)
    assert (answer["step"], answer["steps"]) == (8, 120)
    assert [part["part"] for part in answer["parts"]] == ["learner"]
    assert answer["journal"]["last_sequence"] == len(story())
    assert answer["synthesizer"] == {
        "name": "policy@0",
        "model": msgspec.to_builtins(PolicyModel()),
    }
    (totals,) = answer["synthesizers"]
    assert (totals["admitted"], totals["learnable_share"], totals["tokens_per_admitted"]) == (
        1,
        1,
        400,
    )
    assert answer["signals"] == {"forgetting": {"synthesized": 1}, "rare": {"waiting": 1}}
    assert answer["refusals"] == {"duplicate": 1}


async def test_status_shows_what_engines_have_proven_and_what_stopped_the_run(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    proof = WeightsVerified(
        engine="rollout-0",
        version=7,
        digest="0123456789abcdef",
        max_abs_difference=1.5e-6,
        wall_s=0.031,
        pause_s=0.004,
        proven_ns=1,
    )
    reason = NothingDelivered(waited_s=300.0, newest=7)
    stage.write([*story(), proof, WeightSyncAlarm(engine="rollout-0", version=8, reason=reason)])
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    words = " ".join(said.split())
    assert "ALARM: rollout-0 must serve version 8, and no proof came within 300" in words
    assert rows(said, "rollout-0") == [
        ["rollout-0", "7", "0123456789ab", "1.5e-06 nats", "31 ms", "4 ms"]
    ]
    await status(stage.subject(), as_json=True)
    tree = json.loads(capsys.readouterr().out)
    assert tree["deliveries"]["rollout-0"]["version"] == 7
    assert tree["weight_sync_alarm"]["reason"]["type"] == "nothing_delivered"
