"""Checks a program and its tasks, with policies that have no skill."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Any, cast

import msgspec
from numpy.random import Generator, default_rng

from coevolve.environments.program.agent import ProgramAgent, ProgramOutcome
from coevolve.environments.program.settings import CARRIED, ProgramConfig
from coevolve.environments.program.tasks import TaskFile, line_of
from coevolve.environments.program.worker import Programs
from coevolve.environments.sdk import EARNED, Checks, Episode, Finding, Sampling, findings
from protocols.capabilities import Capabilities
from protocols.config import RolloutConfig
from protocols.errors import SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.tasks import Task

END = 0x110000
"""Ends a message; all other tokens are characters."""

LIMITS = RolloutConfig(max_tokens=1 << 22, max_call_tokens=1 << 20)

RANDOM_ANSWERS = 20
"""Random attempts at a task."""

AT_ONCE = 4
"""Random attempts at once: some start a server each."""

RANDOM_TASKS = 5
"""Maximum number of tasks that are attempted at random."""

WORDS = 12
"""Words, or characters, of a random message."""

ANSWER = "answer"
"""Field of a task that would tell a program what to answer."""

LETTERS = ascii_letters + digits
SILENCE = "silence"
ECHO = "an echo"
RANDOM = "random answers"


_Read = tuple[str, Sequence[tuple[str, dict[str, Any]]]]
"""The words of a message, and the names and arguments of its calls."""


class _Characters:
    """The part of a `coevolve.models.chat_template.ChatTemplate` that a session calls."""

    stop_ids = (END,)
    end = "end"
    vocabulary = END + 1

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
    """A `protocols.interfaces.Generator` that says nothing, what it was told last, or anything."""

    def __init__(self, skill: str) -> None:
        self._skill = skill

    async def generate(self, request: GenerationRequest) -> Generation:
        said = (*self._words(request), END)
        return Generation(
            token_ids=said, logprobs=(0.0,) * len(said), versions=(0,) * len(said), stopped=True
        )

    def _words(self, request: GenerationRequest) -> Sequence[int]:
        prompt = request.prompt_ids
        heard = prompt[len(prompt) - prompt[::-1].index(END) :]
        if self._skill == RANDOM:
            text = "".join(map(chr, heard))
            return tuple(map(ord, _random_text(text, default_rng(request.seed))))
        return heard if self._skill == ECHO else ()

    async def release(self, conversation_id: str) -> None: ...

    async def load(self, version: object) -> Any: ...

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None: ...


def _random_text(heard: str, rng: Generator) -> str:
    """Return words of a text in any order, or letters and digits."""
    if words := heard.split() if rng.random() < 0.5 else []:
        return " ".join(words[int(place)] for place in rng.integers(len(words), size=WORDS))
    return "".join(LETTERS[int(place)] for place in rng.integers(len(LETTERS), size=WORDS))


def _no_calls(text: str, tools: Sequence[dict[str, Any]]) -> _Read:
    del tools
    return text, ()


def _random_calls(text: str, tools: Sequence[dict[str, Any]]) -> _Read:
    """Return a call of any tool in half of all cases; the text decides."""
    rng = default_rng(list(text.encode()))
    if not tools or rng.random() < 0.5:
        return text, ()
    function = tools[int(rng.integers(len(tools)))]["function"]
    parameters: dict[str, Any] = function.get("parameters") or {}
    properties: dict[str, Any] = parameters.get("properties") or {}
    return "", ((function["name"], {name: _any(properties[name], rng) for name in properties}),)


def _any(schema: Any, rng: Generator) -> Any:
    """Return a value of the type that a schema names; a text for other types than these."""
    values: dict[str, Any] = {
        "boolean": bool(rng.random() < 0.5),
        "integer": int(rng.integers(-1, 11)),
        "number": float(rng.uniform(-1, 10)),
        "array": [],
        "object": {},
    }
    kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return values.get(str(kind), _random_text("", rng))


@dataclass(frozen=True)
class _Subject:
    """The tasks, and policies that attempt them."""

    tasks: Sequence[Task]
    silent: ProgramAgent
    echo: ProgramAgent
    random: ProgramAgent
    failures: list[SimulatorError]
    """Why the program gave no answer."""

    def check_answered(self) -> None:
        """Raise SimulatorError if it gave none: the next attempt would wait for one as long."""
        for failure in self.failures:
            raise failure


async def conformance(
    settings: ProgramConfig,
    source: TaskFile,
    capabilities: Capabilities,
    most: int,
    *,
    has_tools: bool,
) -> tuple[Finding, ...]:
    """Return the findings on at most ``most`` tasks of each split.

    ``has_tools``: whether the model takes tools.
    """
    programs = Programs(settings)

    def agent(skill: str) -> ProgramAgent:
        reader = _random_calls if skill == RANDOM else _no_calls
        sampling = Sampling(
            generator=_Unskilled(skill),
            template=cast("Any", _Characters()),
            limits=LIMITS,
            temperature=1.0,
            read_calls=reader if has_tools else None,
        )
        return ProgramAgent(settings, sampling, (programs,))

    tasks = (*source.pool()[:most], *source.held_out()[:most])
    subject = _Subject(tasks, *map(agent, (SILENCE, ECHO, RANDOM)), failures=[])
    try:
        return await findings(_CHECKS, subject, capabilities)
    finally:
        await programs.close()


async def _rewards(agent: ProgramAgent, tasks: Sequence[Task]) -> list[tuple[float, bool]]:
    """Return the reward of an attempt at each task, and whether it succeeds."""
    made = [await _attempted(agent, task, 0) for task in tasks]
    return [(each.reward, each.succeeded) for each in made]


async def _attempted(agent: ProgramAgent, task: Task, seed: int) -> Episode:
    """Make an attempt. Raises SimulatorError also if the program ends it at a refused request."""
    made = await agent.attempt(task, f"check-{task.task_id}-{seed}", seed=seed)
    if made.ended == "program_stopped" and made.traffic.refused:
        outcome = msgspec.msgpack.decode(made.outcome, type=ProgramOutcome)
        raise SimulatorError(
            f"task {task.task_id}: the policy's endpoint refuses a request, and the program calls "
            f"that the policy's fault, so that every such attempt has reward 0: {outcome.error}"
        )
    return made


async def _answers(subject: _Subject) -> tuple[bool, str]:
    try:
        await _rewards(subject.silent, subject.tasks)
    except SimulatorError as error:
        subject.failures.append(error)
        raise
    return True, f"{len(subject.tasks)} tasks got a reward"


async def _earned(subject: _Subject) -> tuple[bool, str]:
    subject.check_answered()
    for agent, what in ((subject.silent, SILENCE), (subject.echo, ECHO)):
        for task, (_, solved) in zip(
            subject.tasks, await _rewards(agent, subject.tasks), strict=True
        ):
            if solved:
                return False, f"task {task.task_id!r} is solved by {what}"
    for task in subject.tasks[:RANDOM_TASKS]:
        if solved := await _solved_at_random(subject.random, task):
            return (
                False,
                f"task {task.task_id!r} is solved by {solved} of {RANDOM_ANSWERS} {RANDOM}",
            )
    return True, f"{len(subject.tasks)} tasks, solved by neither {SILENCE}, {ECHO} nor {RANDOM}"


async def _solved_at_random(agent: ProgramAgent, task: Task) -> int:
    """Return how many random attempts solve a task."""
    free = asyncio.Semaphore(AT_ONCE)

    async def solves(seed: int) -> bool:
        async with free:
            return (await _attempted(agent, task, seed)).succeeded

    return sum(await asyncio.gather(*map(solves, range(RANDOM_ANSWERS))))


def answers_shown(settings: ProgramConfig, tasks: Sequence[Task]) -> Finding:
    """Return whether the program reads the answers of tasks, and is none of coevolve's."""
    is_own = not settings.command[0].startswith(CARRIED)
    found = [each.task_id for each in tasks if ANSWER in line_of(each)] if is_own else []
    told = (
        f"{len(found)} tasks, such as {found[0]!r}, hold the field {ANSWER!r}, and the program "
        f"{settings.command[0]} gets it: see that it neither shows it nor answers by it"
        if found
        else f"no task gives its field {ANSWER!r} to a program of your own"
    )
    return Finding(check="answers in tasks", state="warns" if found else "holds", found=told)


async def _repeated(subject: _Subject) -> tuple[bool, str]:
    subject.check_answered()
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
