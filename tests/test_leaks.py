"""Tests that the policy sees no reference, and only the evaluator sees held-out tasks."""

import msgspec
import pytest

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT, DONE
from coevolve.environments.tools.task import ToolTask, read_body
from protocols.config import RolloutConfig
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights
from protocols.tasks import body_of
from tests.simulated import InProcessSimulator

CANARY = "kestrel"
RENDERER = TinyRenderer.load(CHECKPOINT)


class ListeningGenerator:
    """Ends every turn at once and records its prompts."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.shown.append(RENDERER.decode(request.prompt_ids))
        return Generation(token_ids=(DONE,), logprobs=(0.0,), versions=(0,), stopped=True)

    async def release(self, conversation_id: str) -> None: ...

    async def load(self, version: PolicyVersion) -> ServedWeights: ...

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None: ...


def marked(body: ToolTask) -> ToolTask:
    """Return the task with the canary in its reference and results."""
    turns = tuple(
        msgspec.structs.replace(
            turn, reference=(f"mkdir(dir_name='{CANARY}{index}')",), results=(f"made {CANARY}",)
        )
        for index, turn in enumerate(body.turns)
    )
    return msgspec.structs.replace(body, turns=turns)


@pytest.mark.parametrize("number", range(5))
async def test_no_word_of_a_reference_reaches_the_policy(number: int):
    task = uniform_task(0, number)
    told = msgspec.structs.replace(task, body=body_of(marked(read_body(task.body))))
    generator = ListeningGenerator()
    arena = ToolAgent(
        generator=generator,
        simulator=InProcessSimulator(),
        renderer=RENDERER,
        limits=RolloutConfig(),
        temperature=1.0,
    )
    await arena.attempt(told, "session", seed=0)
    assert generator.shown
    assert not any(CANARY in shown for shown in generator.shown)
    assert CANARY in "".join(read_body(told.body).turns[0].reference)
