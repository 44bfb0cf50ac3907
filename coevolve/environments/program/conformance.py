"""Checks a program and its tasks, with policies that have no skill."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from coevolve.environments.program.agent import ProgramAgent
from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import TaskFile
from coevolve.environments.program.worker import Programs
from coevolve.environments.sdk import EARNED, Checks, Finding, Sampling, findings
from protocols.capabilities import Capabilities
from protocols.config import RolloutConfig
from protocols.errors import SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.tasks import Task

END = 0x110000
"""Ends a message; all other tokens are characters."""

LIMITS = RolloutConfig(max_tokens=1 << 22, max_call_tokens=1 << 20)


class _Characters:
    """The part of a `coevolve.models.chat_template.ChatTemplate` that a session calls."""

    stop_ids = (END,)
    end = "end"

    def opening(self, messages: Sequence[Any], tools: Sequence[Any] = ()) -> tuple[int, ...]:
        """Return the last message: an echo needs no more."""
        del tools
        return (END, *map(ord, messages[-1]["content"]))

    def after(self, messages: Sequence[Any], said: Sequence[int] = ()) -> tuple[int, ...]:
        return self.opening(messages, said)

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(each) for each in token_ids if each < END)

    def said(self, token_ids: Sequence[int]) -> str:
        return self.decode(token_ids)

    def unmarked(self, text: str) -> str:
        return text


class _Unskilled:
    """A `protocols.interfaces.Generator` that says nothing, or repeats what it was told last."""

    def __init__(self, *, echoes: bool) -> None:
        self._echoes = echoes

    async def generate(self, request: GenerationRequest) -> Generation:
        prompt = request.prompt_ids
        heard = prompt[len(prompt) - prompt[::-1].index(END) :] if self._echoes else ()
        said = (*heard, END)
        return Generation(
            token_ids=said, logprobs=(0.0,) * len(said), versions=(0,) * len(said), stopped=True
        )

    async def release(self, conversation_id: str) -> None: ...

    async def load(self, version: object) -> Any: ...

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None: ...


@dataclass(frozen=True)
class _Subject:
    """The tasks, and policies that attempt them."""

    tasks: Sequence[Task]
    silent: ProgramAgent
    echo: ProgramAgent


async def conformance(
    settings: ProgramConfig, source: TaskFile, capabilities: Capabilities, most: int
) -> tuple[Finding, ...]:
    """Return the findings on at most ``most`` tasks of each split."""
    programs = Programs(settings)

    def agent(*, echoes: bool) -> ProgramAgent:
        sampling = Sampling(
            generator=_Unskilled(echoes=echoes),
            template=cast("Any", _Characters()),
            limits=LIMITS,
            temperature=1.0,
            read_calls=lambda text, tools: (text, ()),
        )
        return ProgramAgent(settings, sampling, (programs,))

    tasks = (*source.pool()[:most], *source.held_out()[:most])
    subject = _Subject(tasks, agent(echoes=False), agent(echoes=True))
    try:
        return await findings(_CHECKS, subject, capabilities)
    finally:
        await programs.close()


async def _rewards(agent: ProgramAgent, tasks: Sequence[Task]) -> list[tuple[float, bool]]:
    """Return the reward of an attempt at each task, and whether it succeeds."""
    made = [await agent.attempt(task, f"check-{task.task_id}", seed=0) for task in tasks]
    return [(each.reward, each.succeeded) for each in made]


async def _answers(subject: _Subject) -> tuple[bool, str]:
    failed: list[str] = []
    for task in subject.tasks:
        try:
            await _rewards(subject.silent, (task,))
        except SimulatorError as error:
            failed.append(str(error))
    return not failed, failed[0] if failed else f"{len(subject.tasks)} tasks got a reward"


async def _earned(subject: _Subject) -> tuple[bool, str]:
    for agent, what in ((subject.silent, "silence"), (subject.echo, "an echo")):
        for task, (_, solved) in zip(
            subject.tasks, await _rewards(agent, subject.tasks), strict=True
        ):
            if solved:
                return False, f"task {task.task_id!r} is solved by {what}"
    return True, f"{len(subject.tasks)} tasks, solved by neither silence nor an echo"


async def _repeated(subject: _Subject) -> tuple[bool, str]:
    for agent in (subject.silent, subject.echo):
        one, other = [await _rewards(agent, subject.tasks) for _ in range(2)]
        for task, first, second in zip(subject.tasks, one, other, strict=True):
            if first != second:
                rewards = f"{first[0]:g} and {second[0]:g}"
                return False, f"task {task.task_id!r} rewards the same words by {rewards}"
    return True, f"{len(subject.tasks)} tasks, twice"


_CHECKS: Checks[_Subject] = {
    "the program answers": _answers,
    EARNED: _earned,
    "deterministic_reward": _repeated,
}
