"""Attempts that a foreign program makes, with the policy behind an endpoint.

An attempt shares the program's process with others, and ends with it. Then each of them is made
again: at first beside others, at last in a process of its own, whose end counts as its fault. The
end of a simulator does not, as a program is no part of it. If a program ends by itself twice in a
row with one attempt, and does not answer in between, that is the program's fault.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import line_of
from coevolve.environments.program.worker import Answered, Asked, Faulty, Rewarded, Stopped
from coevolve.environments.sdk import Episode, Gateway, GatewaySession, Sampling
from protocols.errors import GeneratorError, SimulatorError, SimulatorLostError
from protocols.interfaces import SimulatorService
from protocols.rollouts import Ending
from protocols.tasks import Task, body_of

REST_S = 10.0
"""Seconds for which a simulator that failed gets attempts only if all others failed, too. One that
restarts would draw all attempts, because it has the fewest."""

SHARED = 2
"""Ends of its process after which an attempt gets one of its own."""

MAX_ALONE = 4
"""Maximum number of attempts at a time that have a process each."""

MAX_LOST = 12
"""Ends of its process or simulator after which an attempt has failed."""


class ProgramOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt showed, beside its tokens."""

    messages: int
    """Messages that the policy wrote."""

    error: str = ""
    """Why the program could not go on, by the policy's fault."""


class ProgramAgent:
    """A `coevolve.rollouts.agent.Agent`."""

    def __init__(
        self, settings: ProgramConfig, sampling: Sampling, simulators: Sequence[SimulatorService]
    ) -> None:
        self._success = settings.success
        self._sampling = sampling
        self._gateway = Gateway()
        self._simulators = simulators
        self._attempts = [0] * len(simulators)
        """Attempts in flight, by simulator."""

        self._failed_s = [-math.inf] * len(simulators)
        """When each simulator failed last."""

        self._alone = asyncio.Semaphore(MAX_ALONE)
        self._suspects = set[str]()
        """Tasks of which an attempt failed in a process of its own."""

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        lost = SHARED if task.task_id in self._suspects else 0
        while True:
            name = f"{session}+{lost}" if lost else session
            is_alone = lost >= SHARED
            try:
                async with self._alone if is_alone else nullcontext():
                    episode = await self._attempt(task, name, seed, is_alone=is_alone)
            except SimulatorLostError:
                lost += 1
                if lost == MAX_LOST:
                    raise
            except SimulatorError:
                if is_alone:
                    self._suspects.add(task.task_id)
                raise
            else:
                self._suspects.discard(task.task_id)
                return episode

    async def _attempt(self, task: Task, session: str, seed: int, *, is_alone: bool) -> Episode:
        began_s = time.monotonic()
        failed: SimulatorError | None = None
        async with self._gateway.session(session, self._sampling, seed) as opened:
            try:
                line, url = line_of(task), opened.base_url
                asked = Asked(task=line, base_url=url, is_alone=is_alone)
                answered = await self._ask(asked)
            except SimulatorError as error:
                failed, answered = error, Faulty(error=str(error))
        talk = opened.session
        if talk.error is not None:
            raise GeneratorError(str(talk.error)) from talk.error
        if failure := _failure(talk, answered):
            kind = SimulatorLostError if isinstance(failed, SimulatorLostError) else SimulatorError
            raise kind(f"task {task.task_id}: {failure}")
        return self._episode(talk, answered, time.monotonic() - began_s)

    async def _ask(self, asked: Asked) -> Answered:
        """Let a simulator that did not just fail make one; of those, the one with the fewest.

        Raises SimulatorError.
        """
        place = min(range(len(self._simulators)), key=self._load)
        self._attempts[place] += 1
        try:
            answer = await self._simulators[place].answer(msgspec.msgpack.encode(asked))
        except SimulatorError:
            self._failed_s[place] = time.monotonic()
            raise
        finally:
            self._attempts[place] -= 1
        return msgspec.msgpack.decode(answer, type=Answered)

    def _load(self, place: int) -> tuple[bool, int]:
        rests = time.monotonic() - self._failed_s[place] < REST_S
        return rests, self._attempts[place]

    def _episode(self, talk: GatewaySession, answered: Answered, wall_s: float) -> Episode:
        is_rewarded = isinstance(answered, Rewarded) and not _has_no_room(talk)
        reward = answered.reward if isinstance(answered, Rewarded) and is_rewarded else 0.0
        won = is_rewarded and reward >= self._success
        first, *further = talk.conversations()
        return Episode(
            tokens=first.tokens(),
            further=tuple(each.tokens() for each in further),
            actions=talk.actions(),
            turns_passed=int(won),
            turns_total=1,
            reward=reward,
            ended=_ending(talk, answered, won=won),
            versions=tuple(v for each in (first, *further) for v in each.sampled_versions()),
            oldest_version=min(each.oldest_version() for each in (first, *further)),
            wall_s=wall_s,
            outcome=body_of(_outcome(talk, answered)),
            traffic=talk.traffic(),
        )


def _failure(talk: GatewaySession, answered: Answered) -> str:
    """Return why an attempt says nothing about the policy; empty if it does."""
    if isinstance(answered, Faulty) and not _has_no_room(talk):
        return answered.error
    if not talk.said:
        refused = ", ".join(talk.counts.refused)
        asked = f"every request was refused: {refused}" if refused else "the program never asked it"
        told = f"; {answered.error}" if isinstance(answered, Stopped) else ""
        return f"the policy wrote nothing: {asked}{told}"
    return ""


def _has_no_room(talk: GatewaySession) -> bool:
    """Return whether the attempt reached a limit, whatever the program then says or does."""
    return talk.is_full or talk.is_crowded


def _ending(talk: GatewaySession, answered: Answered, *, won: bool) -> Ending:
    if talk.is_full:
        return "too_long"
    if talk.is_crowded:
        return "too_many_conversations"
    if isinstance(answered, Stopped):
        return "program_stopped"
    return "finished" if won else "wrong"


def _outcome(talk: GatewaySession, answered: Answered) -> ProgramOutcome:
    return ProgramOutcome(
        messages=talk.said,
        error=answered.error if isinstance(answered, Stopped) else "",
    )
