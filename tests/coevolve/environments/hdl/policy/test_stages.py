"""Stages of training: their writers, the steps that training uses, and the exported steps."""

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coevolve.engine.open_engine import open_engine
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import HdlConfig, StageConfig, TeacherConfig
from coevolve.environments.hdl.curation.supervision import DesignSupervision
from coevolve.environments.hdl.export.transitions import of_run
from coevolve.environments.hdl.policy.chat import ChatStepRenderer
from coevolve.environments.hdl.policy.instructions import system_message
from coevolve.environments.hdl.policy.transition import graded_of
from coevolve.environments.hdl.simulate.wire import TestbenchService
from coevolve.environments.open_parts import PartInputs
from coevolve.environments.settings import section
from coevolve.history.costs import Costs
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import run_reader
from coevolve.learning.history import History
from coevolve.loop import PARTS
from coevolve.models.chat_template import ChatTemplate
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from coevolve.runs import starting
from protocols import columns
from protocols.config import EvaluatorConfig, PolicyConfig, RolloutConfig, RunConfig
from protocols.config import LearnerConfig as Learner
from protocols.control import RunStarted
from protocols.evolution import ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator, Part, Reader
from protocols.journal import Append, Message, Receipt
from protocols.learner_config import ImitationConfig
from protocols.learning import PolicyVersion, ServedWeights, StepReport
from protocols.rollouts import FailedRollout, Rollout, Writer
from tests.chat_server import fails, serving
from tests.commands import answered
from tests.hdl_simulators import ScriptedSimulator
from tests.teaching import DESIGN, GOOD, WORSE, WORST, by_what_is_missed, endpoint

Kind = TypeVar("Kind", bound=Message)

pytestmark = pytest.mark.hdl

WAIT_S = 60.0


class Parrot:
    """The policy's engine, except that it writes given texts."""

    def __init__(self, engine: Generator, texts: Sequence[tuple[int, ...]]) -> None:
        self._engine = engine
        self._texts = cycle(texts)
        self._version = 0

    async def generate(self, request: GenerationRequest) -> Generation:
        ids = next(self._texts)
        return Generation(
            token_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(self._version,) * len(ids),
            stopped=True,
        )

    async def release(self, conversation_id: str) -> None:
        pass

    async def load(self, version: PolicyVersion) -> ServedWeights:
        self._version = version.version
        return await self._engine.load(version)

    def cpu_s(self) -> float:
        return self._engine.cpu_s()

    async def close(self) -> None:
        await self._engine.close()


STAGES = (
    StageConfig(writers=("teacher",), groups=4),
    StageConfig(writers=("policy", "teacher"), groups=2),
    StageConfig(writers=("policy",)),
)
TRAINED: Mapping[int, tuple[Writer, str]] = {
    1: ("teacher", GOOD),
    2: ("teacher", GOOD),
    3: ("teacher", GOOD),
    4: ("policy", ""),
    5: ("teacher", GOOD),
    6: ("policy", WORSE),
    7: ("policy", WORSE),
}
"""Writer of each group, and which steps training uses. In group 0 all rollouts but one failed."""


def taught(folder: Path, student: Path, base_url: str) -> RunConfig:
    shutil.copytree(hardware.DESIGNS / DESIGN, folder / "designs" / DESIGN)
    return RunConfig(
        name="taught",
        arm="static",
        policy=PolicyConfig(model=str(student)),
        environment=section(
            "hdl",
            HdlConfig(
                designs=str(folder / "designs"),
                stages=STAGES,
                teacher=TeacherConfig(model=endpoint(base_url)),
            ),
        ),
        rollout=RolloutConfig(
            in_flight_groups=1, group_size=2, max_tokens=12_000, max_call_tokens=400, tries=1
        ),
        evaluator=EvaluatorConfig(engine="own"),
        learner=Learner(
            steps=len(TRAINED),
            groups_per_step=1,
            max_staleness=0,
            objective={"kind": "sft"},
            imitation=ImitationConfig(weight=0.0, replay_per_step=0),
        ),
    )


async def trained(directory: RunDirectory) -> None:
    """Run curriculum, rollouts and learner as tasks of this loop until the last step."""
    config = directory.config()
    journal = Journal.open(directory.store)
    store = LocalStore(journal)
    receipt = Receipt(producer="test", counter=1)
    began = encode(RunStarted(run_id="here", config="{}"))
    await store.append(Append(records=(began,), receipt=receipt))
    context = PartContext(
        config=config, files=LocalFiles(directory.path), store=store, reader=store
    )
    template = ChatTemplate.load(Path(config.policy.model), variables={})
    texts = [template.answer(WORST), template.answer(WORSE)]
    engine = Parrot(open_engine(config, directory.path, 2), texts)
    simulators = [TestbenchService(ScriptedSimulator(by_what_is_missed), 2)]
    parts: list[Part] = [
        PARTS[name].open(
            PartInputs(
                name=name,
                context=replace(context, takes=PARTS[name].takes),
                simulators=simulators,
                engine=engine,
            )
        )
        for name in ("curriculum", "rollout", "learner")
    ]
    at_work = [asyncio.create_task(part.run()) for part in parts]
    seen = 0
    async with asyncio.timeout(WAIT_S):
        while len(await store.scan("step_report")) < config.learner.steps:
            seen = await store.wait(("step_report",), seen, WAIT_S)
    for part in parts:
        await part.stop()
    await asyncio.gather(*at_work)
    await engine.close()
    journal.close()


@dataclass(frozen=True)
class Run:
    """A finished run, and the number of requests to its teacher."""

    directory: RunDirectory
    reader: Reader
    asked: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, student: Path) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    said = cycle([WORSE, GOOD])
    with serving(lambda _: next(said)) as server:
        server.then(fails(404))
        config = taught(folder, student, server.base_url)
        directory = starting.create(folder / "taught", config)
        asyncio.run(trained(directory))
    reader = run_reader(directory.path)
    return Run(directory=directory, reader=reader, asked=len(server.requests))


async def everything(run: Run, kind: type[Kind]) -> list[Kind]:
    return [decode_as(each, kind) for each in await run.reader.scan(topic_of(kind))]


async def test_stages_use_their_writers_and_continue_from_one_another(run: Run):
    rollouts = await everything(run, Rollout)
    assert all(graded_of(each) for each in rollouts)
    authors = {each.group: each.author for each in rollouts if each.group in TRAINED}
    assert authors == {group: writer for group, (writer, _) in TRAINED.items()}
    history = History(run.reader, DesignSupervision(HdlConfig(stages=STAGES)))
    versions = await everything(run, PolicyVersion)
    for report in await everything(run, StepReport):
        (group,) = (await history.batch(report)).groups
        assert group.worthy is not None
        learned = [graded_of(group.rollouts[index]) for index in group.worthy]
        _, answer = TRAINED[group.record.group]
        assert len(learned) == bool(answer)
        assert all(each and each.testbench in answer for each in learned)
        assert {each.version_max for each in group.rollouts} == {report.step - 1}
        before, after = versions[report.step - 1], versions[report.step]
        assert (before.digest != after.digest) == bool(answer)


async def test_a_teacher_without_an_answer_fails_a_rollout_and_costs_are_counted(
    run: Run,
):
    (failed,) = await everything(run, FailedRollout)
    assert "the server has this model" in failed.reason
    assert (failed.group, failed.tries) == (0, 1)
    calls, spent = await everything(run, ModelCall), Costs()
    for call in calls:
        spent.fold(call)
    assert spent.teaching.calls == len(calls) == run.asked - 1
    assert (spent.synthesizing.calls, spent.teaching.cost_usd > 0) == (0, True)
    assert any(line.name == "teacher, cost" for line in spent.lines())


async def test_the_steps_of_a_run_are_read_from_the_policys_tokens(
    run: Run, student: Path, renderer: ChatStepRenderer
):
    template = ChatTemplate.load(student, variables={})
    rollouts = {f"{each.group_id}/{each.index}": each for each in await everything(run, Rollout)}
    steps = [each async for each in of_run(run.reader, run.directory.config(), renderer)]
    assert [each.transition_id for each in steps] == list(rollouts)
    for step in steps:
        chat = [{"role": each.role, "content": each.text} for each in step.prompt]
        prompt_ids = template.encode(template.render(chat, prompts=True))
        recorded = columns.from_int32(rollouts[step.transition_id].tokens.token_ids)
        assert (*prompt_ids, *template.answer(step.answer)) == tuple(recorded)
        assert step.cost.prompt_tokens == len(prompt_ids)
        assert (step.parent in rollouts) == (step.round > 0)
        assert step.author.name == {"teacher": "teacher", "policy": "policy"}[step.author.writer]
    assert {each.stage for each in steps} == {0, 1, 2}


def exported(run: Run, folder: Path, *options: str) -> list[dict[str, Any]]:
    answer = answered(
        "export", str(run.directory.path), "transitions", "--to", str(folder), *options
    )
    assert answer.returncode == 0
    assert ("5 steps; left out: " in answer.stdout) == (not options)
    lines = (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_steps_that_stages_train_on_are_exported(run: Run, tmp_path: Path):
    rows = exported(run, tmp_path / "chat")
    assert [(row["stage"], row["run_type"], row["messages"][-1]["content"]) for row in rows] == [
        (0, "agentic_coverage", GOOD),
        (0, "direct_infer", GOOD),
        (1, "agentic_coverage", GOOD),
        (2, "direct_infer", WORSE),
        (2, "agentic_coverage", WORSE),
    ]
    assert rows[0]["messages"][0]["content"] == system_message("testbench")
    assert rows[0]["author"] == "teacher@0"
    every = exported(run, tmp_path / "all", "--keep", "unfiltered", "--form", "llamafactory")
    assert len(every) == 7 + 2 + 4
    assert {row["output"] for row in every} == {GOOD, WORSE, WORST}
    refused = answered("export", str(run.directory.path), "sft", "--to", str(tmp_path / "no"))
    assert refused.returncode == 1
    assert "environment hdl has no table sft" in refused.stderr
