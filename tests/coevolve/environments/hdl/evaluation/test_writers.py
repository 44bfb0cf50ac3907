"""A chat model that writes testbenches: what it is graded on, and what it costs."""

from collections.abc import Sequence

import msgspec
import pytest

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.evaluation.writers import ChatWriter
from coevolve.environments.hdl.policy.transition import Blank, ChatText
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Patch, Testbench
from coevolve.llm.client import Said
from tests.coevolve.environments.hdl.policy.test_steps import TASK
from tests.hdl_simulators import ScriptedSimulator
from tests.hdl_transitions import FAILED
from tests.small_designs import counter

FENCED = "```systemverilog\nmodule tb; endmodule\n```"
PATCHED = "```diff\n@@\n-old\n+new\n```"


OLD = msgspec.structs.replace(FAILED, testbench="old\n")


class Dictated:
    """A `Teacher` that gives the same answer each time, at 2 USD a thousand tokens."""

    name, max_answer_tokens = "dictated", 100

    def __init__(self, text: str) -> None:
        self._text = text
        self.asked: list[Sequence[ChatText]] = []

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        self.asked.append(messages)
        return Said(text=self._text, prompt_tokens=300, answer_tokens=200, wall_s=0.1)

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        return (prompt_tokens + 3 * answer_tokens) / 1000

    async def close(self) -> None:
        return


class Keeping(ScriptedSimulator):
    """Keeps each request, and grades a testbench in place of a patch."""

    async def evaluate(self, request: Evaluate) -> Evaluated:
        graded = msgspec.structs.replace(request, submission=Testbench(text="module tb;"))
        answer = await super().evaluate(graded)
        self.requests[-1] = request
        return answer


def writer(text: str) -> tuple[ChatWriter, Keeping]:
    simulator = Keeping()
    design = counter()
    made = ChatWriter(
        model=Dictated(text),
        simulator=simulator,
        designs={design.design_id: design},
        hdl=HdlConfig(),
    )
    return made, simulator


@pytest.mark.parametrize(
    ("text", "state", "submission"),
    [
        (FENCED, Blank(), Testbench(text="module tb; endmodule\n")),
        (PATCHED, OLD, Patch(text="@@\n-old\n+new\n", base="old\n")),
    ],
)
async def test_an_answer_is_graded_as_that_of_a_policy(text: str, state, submission):
    writing, simulator = writer(text)
    task = msgspec.structs.replace(
        TASK, design="counter", form="patch", instance="u_top", state=state
    )
    assert await writing.write(task, "session", 0)
    (request,) = simulator.requests
    assert (request.submission, request.instance) == (submission, "u_top")


async def test_an_unreadable_answer_is_paid_for_and_not_graded():
    writing, simulator = writer("I would rather not.")
    task = msgspec.structs.replace(TASK, design="counter")
    assert [await writing.write(task, "session", seed) for seed in range(2)] == [None, None]
    assert not simulator.requests
    usage = writing.usage
    assert (usage.calls, usage.tokens) == (2, 1000)
    assert usage.cost_usd == pytest.approx(1.8)


async def test_a_conversation_shows_the_design_once_and_each_testbench_with_its_result():
    writing, _ = writer(FENCED)
    state = msgspec.structs.replace(FAILED, testbench="third")
    task = msgspec.structs.replace(TASK, design="counter", state=state)
    earlier = [msgspec.structs.replace(FAILED, testbench=text) for text in ("first", "second")]
    await writing.write(task, "session", 0, earlier)
    assert isinstance(writing.model, Dictated)
    (messages,) = writing.model.asked
    assert [each.role for each in messages] == ["system", *["user", "assistant"] * 3, "user"]
    said = [each.text for each in messages if each.role == "assistant"]
    assert ["first" in said[0], "second" in said[1], "third" in said[2]] == [True] * 3
    assert sum("module counter" in each.text for each in messages) == 1
