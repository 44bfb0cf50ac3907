"""A teacher that writes testbenches: its prompts, and its records."""

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import msgspec
import pytest

from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import HdlConfig, LocalTeacher, TeacherConfig
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.policy.chat import ChatStepRenderer
from coevolve.environments.hdl.policy.instructions import SYNTAX_RULES
from coevolve.environments.hdl.policy.steps import Step, TestbenchAgent
from coevolve.environments.hdl.policy.teacher import (
    EndpointTeacher,
    InProcessTeacher,
    TeacherWriter,
    call_id,
)
from coevolve.environments.hdl.policy.transition import read_outcome
from coevolve.environments.hdl.settings import with_hdl
from coevolve.environments.hdl.simulate.messages import SimulationLimits
from coevolve.models.chat_template import ChatTemplate
from protocols import columns
from protocols.config import RolloutConfig, RunConfig
from protocols.errors import ConfigError, EndpointError
from protocols.evolution import CallFailed, ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.synthesizers import EndpointModel
from tests.chat_server import serving
from tests.coevolve.environments.hdl.policy.test_steps import TASK, Typist, design
from tests.hdl_points import POINTS
from tests.hdl_simulators import ScriptedSimulator
from tests.teaching import GOOD, by_what_is_missed, endpoint


@dataclass
class Memory:
    """The calls of every rollout."""

    calls: dict[str, ModelCall] = field(default_factory=dict[str, ModelCall])

    def open(self, rollout: str) -> "_Log":
        return _Log(self, rollout)


@dataclass
class _Log:
    memory: Memory
    rollout: str

    async def __aenter__(self) -> "_Log":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    async def recorded(self, ordinal: int) -> ModelCall | None:
        assert ordinal == 0
        return self.memory.calls.get(self.rollout)

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        pass

    async def failed(self, call: CallFailed) -> None:
        raise AssertionError(call)

    async def note(self, call: ModelCall) -> None:
        self.memory.calls[self.rollout] = call


def bench(writer: TeacherWriter, *, most: int = 200) -> TestbenchAgent:
    return TestbenchAgent(
        writer=writer,
        simulator=ScriptedSimulator(by_what_is_missed),
        renderer=writer.renderer,
        designs=Catalogue([design("top")]),
        limits=RolloutConfig(max_tokens=4000, max_call_tokens=most),
        simulation=SimulationLimits(),
    )


def writer(model: EndpointModel, renderer: ChatStepRenderer, memory: Memory) -> TeacherWriter:
    return TeacherWriter(
        teacher=EndpointTeacher(model),
        renderer=renderer,
        rules=True,
        served=lambda: 5,
        open_log=memory.open,
    )


async def test_a_teacher_gets_rules_that_training_leaves_out(
    renderer: ChatStepRenderer,
):
    memory = Memory()
    with serving(lambda _: f"<think>\nHm.\n</think>\n{GOOD}") as server:
        teaching = writer(endpoint(server.base_url), renderer, memory)
        played = await bench(teaching).attempt(TASK.task(), "s", seed=7)
        again = await bench(teaching).attempt(TASK.task(), "another", seed=7)
        await teaching.teacher.close()
    (asked,) = server.requests
    assert SYNTAX_RULES in asked.body["messages"][0]["content"]
    assert "response_format" not in asked.body
    ids = columns.from_int32(played.tokens.token_ids)
    written = [id for id, own in zip(ids, played.tokens.mask, strict=True) if own]
    assert tuple(written) == renderer.written(GOOD)
    assert tuple(ids[: -len(written)]) == tuple(renderer.prompt(TASK, design("top"), POINTS))
    assert not any(rule in renderer.said(ids) for rule in SYNTAX_RULES.splitlines())
    assert set(columns.from_float32(played.tokens.logprobs)) == {0.0}
    assert set(played.versions) == {5}
    assert (played.ended, played.tokens) == ("finished", again.tokens)
    call = memory.calls[call_id(TASK.task_id, 7)]
    assert (call.purpose, call.kind, call.model) == ("teach", "teaching", "teacher")
    assert call.cost_usd == (call.prompt_tokens + 2 * call.answer_tokens) / 1e6 > 0


@pytest.mark.parametrize(
    ("answer", "ended"), [("I cannot.", "malformed"), ("<think>", "malformed"), (GOOD, "too_long")]
)
async def test_an_answer_that_the_policy_could_not_write_is_not_graded(
    renderer: ChatStepRenderer, answer: str, ended: str
):
    with serving(lambda _: answer) as server:
        teaching = writer(endpoint(server.base_url), renderer, Memory())
        played = await bench(teaching, most=8).attempt(TASK.task(), "s", seed=0)
        await teaching.teacher.close()
    assert (played.ended, read_outcome(played.outcome)) == (ended, None)


async def test_a_local_teacher_uses_its_own_chat_template(
    student: Path, renderer: ChatStepRenderer
):
    template = ChatTemplate.load(student, variables={})
    said = template.answer(GOOD)

    class Saying(Typist):
        async def generate(self, request: GenerationRequest) -> Generation:
            self.requests.append(request)
            zeros = tuple(0.0 for _ in said)
            return Generation(
                token_ids=said, logprobs=zeros, versions=(0,) * len(said), stopped=True
            )

    model = Saying()
    settings = LocalTeacher(model="big", temperature=0.3, max_answer_tokens=99, max_tokens=3000)
    teacher = InProcessTeacher(settings, model, template)
    step = Step(task=TASK, design=design("top"), points=POINTS, prompt_ids=(), max_tokens=500)
    teaching = TeacherWriter(
        teacher=teacher,
        renderer=renderer,
        rules=False,
        served=lambda: 0,
        open_log=Memory().open,
    )
    generation = await teaching.write(step, "s", seed=11)
    assert generation.token_ids == renderer.written(GOOD)
    (request,) = model.requests
    assert (request.temperature, request.seed, request.max_tokens) == (0.3, 11, 99)
    assert request.prompt_ids == tuple(renderer.prompt(TASK, design("top"), POINTS))
    assert model.released == [request.conversation_id]
    asked = renderer.messages(TASK, design("top"), POINTS)
    narrow = msgspec.structs.replace(settings, max_tokens=5)
    with pytest.raises(
        EndpointError, match=r"shorter than environment\.teacher\.model\.max_tokens = 5"
    ):
        await InProcessTeacher(narrow, model, template).answer(asked, seed=0)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "tiny",
            "environment.teacher.model.model: needs a model with a chat template, found 'tiny'",
        ),
        (
            "nowhere",
            "environment.teacher.model.model: needs 'tiny', a folder in Hugging Face layout",
        ),
    ],
)
def test_an_unusable_teacher_is_refused_before_a_run_starts(model: str, words: str):
    teacher = TeacherConfig(model=LocalTeacher(model=model))
    with pytest.raises(ConfigError) as refused:
        hardware.check_teacher(with_hdl(RunConfig(name="x"), HdlConfig(teacher=teacher)))
    assert words in str(refused.value)
