"""An environment without tools: the policy answers a sum in one message; a program grades it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from coevolve.curriculum.task_sampler import SourceSampler
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.findings import Checks, Finding, findings
from coevolve.environments.interface import Environment
from coevolve.environments.settings import settings_of
from coevolve.models.model_folder import model_folder
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent, Episode
from coevolve.rollouts.conversation import Conversation
from coevolve.rollouts.evaluator import AttemptScorer, Scorer
from protocols.config import RunConfig
from protocols.interfaces import Generator, SimulatorService
from protocols.rollouts import Action, Ending, Writer
from protocols.tasks import Seeded, Split, Task, TaskText, body_of


class Sum(msgspec.Struct, frozen=True):
    left: int
    right: int

    def __str__(self) -> str:
        return f"{self.left} + {self.right} ="


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    largest: int = 9


def sums(largest: int, split: Split) -> list[Task]:
    """Sums of an even number are held out."""
    return [
        Task(
            task_id=f"sum-{left}-{right}",
            split=split,
            origin=Seeded(source="sums"),
            body=body_of(Sum(left, right)),
        )
        for left in range(largest + 1)
        for right in range(largest + 1)
        if (left % 2 == 0) == (split == "held_out")
    ]


def sum_of(task: Task) -> Sum:
    return msgspec.msgpack.decode(task.body, type=Sum)


@dataclass(frozen=True)
class SumSource:
    """A `protocols.interfaces.TaskSource`."""

    largest: int

    def pool(self) -> Sequence[Task]:
        return sums(self.largest, "train")

    def draw(self, number: int) -> tuple[Task, bool]:
        pool = self.pool()
        return pool[number % len(pool)], False

    def held_out(self) -> Sequence[Task]:
        return sums(self.largest, "held_out")[:4]

    def canaries(self, count: int) -> Sequence[Task]:
        return ()


class Grader:
    """The simulator: a request is a sum and an answer, the answer is a reward."""

    last_error = ""

    async def answer(self, request: bytes) -> bytes:
        asked, text = msgspec.msgpack.decode(request, type=tuple[Sum, str])
        return msgspec.msgpack.encode(float(text.strip() == str(asked.left + asked.right)))

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        return


async def reward_of(service: SimulatorService, asked: Sum, text: str) -> float:
    return msgspec.msgpack.decode(await service.answer(msgspec.msgpack.encode((asked, text))))


class Answerer:
    """An `Agent` that answers in one message."""

    def __init__(
        self, config: RunConfig, engine: Generator, service: SimulatorService, temperature: float
    ) -> None:
        # Loads transformers, which only processes with an agent need.
        from coevolve.models.chat_template import ChatTemplate

        folder = model_folder(config.policy.model)
        self._template = ChatTemplate.load(folder, variables={})
        self._limits, self._engine, self._service = config.rollout, engine, service
        self._temperature = temperature

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        asked = sum_of(task)
        async with Conversation(
            task,
            session,
            seed=seed,
            generator=self._engine,
            limits=self._limits,
            stop_ids=self._template.stop_ids,
            temperature=self._temperature,
        ) as talk:
            chat = [{"role": "user", "content": str(asked)}]
            talk.hear(self._template.encode(self._template.render(chat, prompts=True)))
            ending, text = self._read(await talk.say())
        reward = await reward_of(self._service, asked, text) if ending == "finished" else 0.0
        return talk.episode(
            ended="finished" if reward or ending != "finished" else "wrong",
            reward=reward,
            turns_passed=int(reward == 1),
            turns_total=1,
            actions=[Action(turn=0, text=text, result=str(reward), failed=False)],
        )

    def _read(self, token_ids: Sequence[int] | None) -> tuple[Ending, str]:
        if token_ids is None:
            return "too_long", ""
        try:
            return "finished", self._template.said(token_ids)
        except ValueError:
            return "malformed", ""


class Sums(Environment):
    name = "sums"
    config_type = Settings

    def source(self) -> SumSource:
        return SumSource(settings_of(self._config, Settings).largest)

    def texts(self) -> Iterator[str]:
        yield from (str(sum_of(task)) for task in self.source().pool())
        yield "0 1 2 3 4 5 6 7 8 9"

    def sampler(self) -> SourceSampler:
        return SourceSampler(self.source())

    def scored_tasks(self) -> Sequence[Task]:
        return self.source().held_out()

    def describe(self, task: Task) -> TaskText:
        return TaskText(headline=str(sum_of(task)))

    def simulator(self) -> Grader:
        return Grader()

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        temperature = self._config.rollout.temperature
        return {"policy": Answerer(self._config, engine.generator, simulators[0], temperature)}

    def scorer(
        self, context: PartContext, engine: VerifiedEngine, simulators: Sequence[SimulatorService]
    ) -> Scorer:
        return AttemptScorer(Answerer(self._config, engine.generator, simulators[0], 0.0))

    async def hostile(self, most: int) -> tuple[Finding, ...]:
        return ()

    async def conformance(self, most: int) -> tuple[Finding, ...]:
        return await findings(CHECKS, self.source().pool()[:most], self.capabilities)


async def _right_passes(tasks: Sequence[Task]) -> tuple[bool, str]:
    grader = Grader()
    for asked in map(sum_of, tasks):
        right = str(asked.left + asked.right)
        rewards = [await reward_of(grader, asked, text) for text in (right, right, "", f"{right}0")]
        if rewards != [1, 1, 0, 0]:
            return False, f"{asked}: {rewards}"
    return True, f"{len(tasks)} sums"


CHECKS: Checks[Sequence[Task]] = {
    "right answers pass": _right_passes,
    "deterministic_reward": _right_passes,
}
