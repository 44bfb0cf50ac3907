import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from coevolve.commands.resynthesize import Resynthesized, first_difference, line, resynthesize
from coevolve.environments.open_parts import OpenPart
from coevolve.environments.tools.bfcl.stock import CLASSES
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.wire import ToolService
from coevolve.environments.tools.worker import ToolWorker
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.loop import PARTS
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from coevolve.runs import starting
from coevolve.synthesis.worker import SynthesizerWorker
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.evolution import Candidate, OnTask, SwapRequested
from protocols.evolution_config import SynthesizerConfig
from protocols.synthesizers import SynthesizerModel
from protocols.tasks import body_of
from tests.commands import answered
from tests.scripted import (
    CALLS,
    CONFIG,
    ScriptedSynthesizer,
    Stage,
    add,
    endpoint,
    everything,
    name_of,
    rollout,
    settled,
    signal,
    task,
    told,
)

pytestmark = pytest.mark.usefixtures("short_waits")

QUICK = RunConfig(
    name="test",
    environment={"use": "filesystem", "seeds": 8, "held_out": 4},
    synthesizer=SynthesizerConfig(rounds=2, concurrent=2),
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    """A journal in which two models answered two signals each; nothing came of one of them."""
    journal = Journal.open(tmp_path / "store")
    store = LocalStore(journal)
    stage = Stage(barren={"s1"})
    _, *evidence = await add(store, task(), rollout(), rollout())
    part = SynthesizerWorker(
        CONFIG, store=store, reader=store, open_model=stage.open_model, context=told(CONFIG)
    )
    running = asyncio.create_task(part.run())
    await add(store, signal("s0", evidence=evidence), signal("s1"))
    await settled(store, 2)
    await add(store, SwapRequested(request_id="w", model=endpoint("glm")))
    await store.wait(("synthesizer_swapped",), 0, 10.0)
    await add(store, signal("s2"), signal("s3"))
    await settled(store, 4)
    await part.stop()
    await running
    yield store
    journal.close()


async def again(store: LocalStore, stage: Stage, config: RunConfig = CONFIG) -> list[Resynthesized]:
    found = resynthesize(config, reader=store, context=told(config), open_model=stage.open_model)
    return [each async for each in found]


async def test_recorded_calls_lead_to_the_recorded_candidates_and_no_model_is_asked(
    store: LocalStore,
):
    stage = Stage(barren={"s1"}, down={"policy@0", "glm"})
    found = {each.signal_id: each for each in await again(store, stage)}
    assert {each.difference for each in found.values()} == {""}
    assert {name: (each.synthesizer, each.candidates) for name, each in found.items()} == {
        "s0": ("policy@0", 1),
        "s1": ("policy@0", 0),
        "s2": ("glm", 1),
        "s3": ("glm", 1),
    }
    assert (stage.asked, stage.checks, stage.open) == ([], [], [])


async def test_another_arm_is_told_by_the_first_difference(store: LocalStore):
    stage = Stage(barren={"s1"})
    config = msgspec.structs.replace(CONFIG, arm="placebo")
    found = {each.signal_id: each for each in await again(store, stage, config)}
    assert found["s1"].difference == ""
    assert found["s0"].difference.startswith("candidates[0].body.turns[0].instruction: 't policy@0")
    assert stage.asked == []


async def test_a_call_that_is_missing_is_named(store: LocalStore):
    class Curious(ScriptedSynthesizer):
        async def synthesize(self, brief, calls):
            await self._ask(brief, CALLS, calls)
            return await super().synthesize(brief, calls)

    def open_model(model: SynthesizerModel) -> ScriptedSynthesizer:
        return Curious(name_of(model), Stage())

    found = resynthesize(CONFIG, reader=store, context=told(CONFIG), open_model=open_model)
    differences = [each.difference async for each in found]
    assert len(differences) == 4
    words = "call 3 is not recorded: the journal has 3 calls"
    assert all(difference.startswith(words) for difference in differences)


async def test_an_unknown_model_is_refused(store: LocalStore):
    other = msgspec.structs.replace(CONFIG.synthesizer, model=endpoint("qwen"))
    config = msgspec.structs.replace(CONFIG, synthesizer=other)
    with pytest.raises(RunError, match="'policy@0', and the run's models are qwen, glm"):
        await again(store, Stage(), config)


def candidate(*instructions: str) -> Candidate:
    made = read_body(task().body)
    turns = tuple(
        msgspec.structs.replace(made.turns[0], instruction=instruction)
        for instruction in instructions
    )
    return Candidate(
        candidate_id="c",
        signal_id="s",
        exploration_id="e",
        synthesizer="glm",
        body=body_of(msgspec.structs.replace(made, turns=turns)),
        policy_version=0,
    )


def test_the_first_difference_is_named_by_its_place():
    assert first_difference([candidate("a")], [candidate("a")]) == ""
    assert first_difference([candidate("a", "b")], [candidate("a", "c")]) == (
        "candidates[0].body.turns[1].instruction: 'b' recorded, 'c' made"
    )
    assert first_difference([candidate("a")], []) == "candidates: 1 recorded, 0 made"


def test_what_retention_took_is_told_beside_the_difference():
    gone = Resynthesized(
        signal_id="s", synthesizer="glm", candidates=1, difference="x: 1 recorded", evicted=3
    )
    assert line(gone) == "s: DIFFERS, x: 1 recorded (3 rollouts are gone from the journal)"


async def synthesized_run(path: Path) -> list[Candidate]:
    """Let the shipped policy answer signals, with real simulators; return its candidates."""
    directory = starting.create(path, QUICK)
    journal = Journal.open(directory.store)
    store = LocalStore(journal)
    flagged = [uniform_task(0, number) for number in range(3)]
    await add(store, *flagged)
    worker = ToolWorker(QUICK.simulator, CLASSES)
    context = PartContext(config=QUICK, files=LocalFiles(path), store=store, reader=store)
    part = OpenPart(PARTS["synthesizer"], context, (ToolService(worker),)).part
    running = asyncio.create_task(part.run())
    about = [OnTask(task_id=each.task_id) for each in flagged]
    await add(store, *(signal(f"s{n}", about=each) for n, each in enumerate(about)))
    await settled(store, 3)
    await part.stop()
    await running
    await worker.close()
    made = await everything(store, "candidate", Candidate)
    journal.close()
    return made


def test_a_run_of_the_shipped_policy_is_synthesized_again(tmp_path: Path):
    made = asyncio.run(synthesized_run(tmp_path / "run"))
    assert made
    answer = answered("resynthesize", str(tmp_path / "run"))
    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.endswith("3 of 3 signals led to their recorded candidates\n")
    report = json.loads(answered("resynthesize", str(tmp_path / "run"), "--json").stdout)
    assert (report["signals"], report["equal"]) == (3, 3)
    assert sum(each["candidates"] for each in report["answered"]) == len(made)


def test_what_is_no_run_is_refused(tmp_path: Path):
    answer = answered("resynthesize", str(tmp_path))
    assert answer.returncode == 1
    assert "is neither a run's folder nor" in answer.stderr
