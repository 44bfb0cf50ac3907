import json

import msgspec
import pytest

from coevolve.cli.attach_views.lineage import lineage
from protocols.errors import RunError
from protocols.evolution import Opinion, Reading
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import admitted, made, seed, story, verdict, visit


async def shown(stage: Stage, capsys, task: str) -> str:
    await lineage(stage.subject(), task, as_json=False)
    return capsys.readouterr().out


async def test_the_lineage_of_a_task_goes_from_its_signal_to_its_results(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(story())
    said = await shown(stage, capsys, "made-1")
    chapters = (
        "not running; this is its state in the journal",
        "signal s1: forgetting, score 0.75, version 3",
        "task seed-1",
        "P(drop > 0.2) = 0.97; 3 rollouts as evidence",
        "reflection of policy@0: It lists the wrong folder.",
        "failure cause: no cd before ls",
        "to explore: cd",
        "to avoid: ls",
        "exploration e-s1 from seed-7, 2 steps",
        "cd('docs') -> {}",
        'candidate c1 by policy@0, 2 turns, "List the files."; "Go to docs.", version 3',
        "probe at version 4: 0/4",
        "probe at version 4: 2/4",
        "verdict at version 4: parked",
        "verdict at version 4: admitted as learnable, 2/4 probes",
        "task made-1",
        "turn 1: List the files.",
        "trained on in steps: 7 8",
        "version 5: 2/8",
        "version 7: 5/8",
    )
    places = [said.index(chapter) for chapter in chapters]
    assert places == sorted(places)


async def test_the_lineage_of_a_seed_task_goes_from_its_source_to_the_signals_about_it(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(story())
    said = await shown(stage, capsys, "seed-1")
    assert said.index("seed grammar:static") < said.index("task seed-1")
    assert said.index("version 7: 8/8") < said.index("signal s1: forgetting")


async def test_a_judges_opinion_is_shown_below_the_verdict(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    opinion = Opinion(judge="glm", success=False, reason="A step is skipped.")
    reading = Reading(reader="reader", outcome="confirmed", found="picked 2 of 3 options.")
    judged = msgspec.structs.replace(
        verdict("c", "s", admitted("made-1")), opinion=opinion, reading=reading
    )
    stage.write([judged, made("made-1", "c", "s")])
    said = await shown(stage, capsys, "made-1")
    assert "judge glm: unsound; A step is skipped." in said
    assert "reader reader: confirmed; picked 2 of 3 options." in said
    assert "signal s: not recorded" in said


async def test_a_unique_prefix_of_an_id_is_enough(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    assert "task made-1" in await shown(stage, capsys, "ma")


async def test_an_id_that_is_a_prefix_of_another_names_its_own_task(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write([seed("seed-1"), seed("seed-11"), visit("seed-1", 3)])
    assert "version 0: 3/8" in await shown(stage, capsys, "seed-1")


async def test_a_prefix_of_several_ids_is_refused_and_the_ids_are_listed(stage: Stage):
    stage.write([seed(f"seed-{n}") for n in range(7)])
    with pytest.raises(
        RunError,
        match=r"7 tasks begin with 'seed': seed-0, .*, seed-4, \.\.\.; give a longer prefix",
    ):
        await lineage(stage.subject(), "seed", as_json=False)


async def test_an_unknown_id_is_refused_and_similar_ids_are_suggested(stage: Stage):
    stage.write(story())
    with pytest.raises(
        RunError, match=r"no task has an id that begins with 'made-2'; did you mean made-1"
    ):
        await lineage(stage.subject(), "made-2", as_json=False)
    with pytest.raises(RunError, match=r"begins with 'xyz'; `attach tasks` lists all tasks"):
        await lineage(stage.subject(), "xyz", as_json=False)


async def test_a_lineage_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.write(story())
    await lineage(stage.subject(), "made-1", as_json=True)
    answer = json.loads(capsys.readouterr().out)
    found = answer["lineage"]
    assert not answer["running"]
    assert found["history"]["task"]["task_id"] == "made-1"
    assert found["history"]["task"]["body"]["turns"][0]["reference"] == ["ls()"]
    assert found["signal"]["signal"]["signal_id"] == "s1"
    assert found["exploration"]["start"] == "seed-7"
    assert found["candidate"]["candidate_id"] == "c1"
    assert [each["successes"] for each in found["probes"]] == [0, 2]
