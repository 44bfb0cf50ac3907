"""A scripted synthesizer, and a journal with signals for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from coevolve.environments.tools.synthesis.brief import Start, tool_context
from coevolve.environments.tools.synthesis.context import ToolBriefs
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.local_store import LocalStore
from coevolve.journal.paging import whole_topic
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import EndpointError
from protocols.evolution import (
    Anything,
    Candidate,
    Exploration,
    ModelCall,
    OnPattern,
    OnTask,
    Reflection,
    Signal,
    SignalKind,
    SignalSettled,
)
from protocols.evolution_config import SynthesizerConfig
from protocols.interfaces import CallLog
from protocols.journal import (
    Append,
    Complete,
    JournalStatistics,
    Message,
    Receipt,
    StoredRecord,
    Take,
)
from protocols.learning import PolicyVersion
from protocols.rollouts import Action, Rollout, Tokens
from protocols.synthesis import Brief, Synthesis
from protocols.synthesizers import EndpointModel, SynthesizerModel
from protocols.tasks import Split, Task
from tests.fakes import tool_task

Kind = TypeVar("Kind", bound=msgspec.Struct)

WAIT_S = 20.0
"""Bounds every wait; all waits end much sooner."""

CALLS = 3
TOKENS = 10
"""Maximum tokens of a call, and its default number."""

CONFIG = RunConfig(name="test", synthesizer=SynthesizerConfig(rounds=3, steps=5, concurrent=2))


def endpoint(model: str) -> EndpointModel:
    return EndpointModel(base_url="http://127.0.0.1:9/v1", model=model)


def name_of(model: SynthesizerModel) -> str:
    return model.model if isinstance(model, EndpointModel) else "policy@0"


@dataclass
class Stage:
    """The script of all synthesizers of a test, and the record of their calls."""

    down: set[str] = field(default_factory=set[str])
    """Models that do not answer."""

    fails: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Signal -> the error that its work raises after the first call."""

    barren: set[str] = field(default_factory=set[str])
    """Signals without candidates."""

    held: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    """Signal -> event for which its work waits after the first call."""

    asked: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """Calls made: model, signal, ordinal."""

    briefs: list[Brief] = field(default_factory=list[Brief])
    checks: list[str] = field(default_factory=list[str])
    open: list[str] = field(default_factory=list[str])
    in_work: int = 0
    most_in_work: int = 0

    def open_model(self, model: SynthesizerModel) -> "ScriptedSynthesizer":
        return ScriptedSynthesizer(name_of(model), self)


class ScriptedSynthesizer:
    """Calls its model `CALLS` times per signal; each request gives one candidate."""

    def __init__(self, name: str, stage: Stage) -> None:
        self._name = name
        self._stage = stage
        stage.open.append(name)

    @property
    def name(self) -> str:
        return self._name

    async def check(self) -> None:
        self._stage.checks.append(self._name)
        self._refuse_when_down()

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        stage = self._stage
        stage.briefs.append(brief)
        stage.in_work += 1
        stage.most_in_work = max(stage.most_in_work, stage.in_work)
        try:
            answers = [await self._ask(brief, 0, calls)]
            if brief.signal_id in stage.held:
                await stage.held[brief.signal_id].wait()
            if brief.signal_id in stage.fails:
                raise stage.fails[brief.signal_id]
            answers += [await self._ask(brief, ordinal, calls) for ordinal in range(1, CALLS)]
        finally:
            stage.in_work -= 1
        return self._made(brief, answers)

    def cpu_s(self) -> float:
        return 1.0

    async def close(self) -> None:
        self._stage.open.remove(self._name)

    async def _ask(self, brief: Brief, ordinal: int, calls: CallLog) -> str:
        recorded = await calls.recorded(ordinal)
        if recorded is not None:
            return recorded.answer
        await calls.allow(TOKENS - 1, 1, 0.0)
        self._refuse_when_down()
        self._stage.asked.append((self._name, brief.signal_id, ordinal))
        answer = f"{self._name}:{len(self._stage.asked)}"
        await calls.note(
            ModelCall(
                signal_id=brief.signal_id,
                ordinal=ordinal,
                purpose="explore",
                kind=brief.kind,
                model=self._name,
                prompt="",
                answer=answer,
                prompt_tokens=TOKENS - 1,
                answer_tokens=1,
                cost_usd=0.0,
                wall_s=0.0,
            )
        )
        return answer

    def _refuse_when_down(self) -> None:
        if self._name in self._stage.down:
            raise EndpointError(f"{self._name} does not answer")

    def _made(self, brief: Brief, answers: Sequence[str]) -> Synthesis:
        exploration = Exploration(
            exploration_id=f"{brief.signal_id}-e",
            signal_id=brief.signal_id,
            synthesizer=self._name,
            reflection=Reflection(
                summary="",
                failure_cause="",
                instability_pattern="",
                focus_pattern=(),
                avoid_pattern=(),
            ),
            start=tool_context(brief).starts[0].origin,
            steps=(),
        )
        told = " ".join((exploration.start, *answers))
        candidate = Candidate(
            candidate_id=f"{brief.signal_id}-c",
            signal_id=brief.signal_id,
            exploration_id=exploration.exploration_id,
            synthesizer=self._name,
            body=tool_task(told, *tool_context(brief).instructions).body,
            policy_version=brief.policy_version,
        )
        found = () if brief.signal_id in self._stage.barren else (candidate,)
        return Synthesis(explorations=(exploration,), candidates=found, simulator_calls=7)


class NumberedSource:
    """A task source whose starts are numbered."""

    def pool(self) -> Sequence[Task]:
        return ()

    def draw(self, number: int) -> tuple[Task, bool]:
        raise NotImplementedError

    def held_out(self) -> Sequence[Task]:
        return ()

    def canaries(self, count: int) -> Sequence[Task]:
        return ()

    def start(self, number: int) -> Start:
        return Start(origin=f"start:{number}", classes=("Fake",), world="{}")


class MortalStore:
    """A store whose process is killed at its ``dies_at``-th write, before or after storing it."""

    def __init__(self, store: LocalStore, dies_at: int, *, keeps: bool) -> None:
        self._store = store
        self._dies_at = dies_at
        self._keeps = keeps
        self._writes = 0
        self.dead = asyncio.Event()

    async def append(self, request: Append) -> tuple[int, ...]:
        return await self._written(lambda: self._store.append(request))

    async def complete(self, request: Complete) -> tuple[int, ...]:
        return await self._written(lambda: self._store.complete(request))

    async def _written(self, write: Callable[[], Awaitable[tuple[int, ...]]]) -> tuple[int, ...]:
        self._writes += 1
        if self._writes < self._dies_at:
            return await write()
        if self._writes == self._dies_at and self._keeps:
            await write()
        self.dead.set()
        return await asyncio.Future()

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        return await self._store.take(request)

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        return await self._store.wait(topics, after, wait_s)

    async def checkpoint(self, path: Path) -> None:
        await self._store.checkpoint(path)

    async def statistics(self) -> JournalStatistics:
        return await self._store.statistics()


async def add(store: LocalStore, *messages: Message) -> tuple[int, ...]:
    """Append messages and return their sequence numbers."""
    receipt = Receipt(producer=f"test-{id(messages)}-{await store.wait((), 0, 0.0)}", counter=1)
    return await store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))


async def settled(store: LocalStore, count: int) -> dict[str, SignalSettled]:
    """Wait until ``count`` signals are resolved; return the records by signal id, in order."""
    seen = 0
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await everything(store, "signal_settled", SignalSettled)
            if len(found) >= count:
                assert len({each.signal_id for each in found}) == len(found)
                return {each.signal_id: each for each in found}
            seen = await store.wait(("signal_settled",), seen, WAIT_S)


async def everything(store: LocalStore, topic: str, kind: type[Kind]) -> list[Kind]:
    return [decode_as(record, kind) async for record in whole_topic(store, topic)]


async def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds that no record reports."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.005)


def task(task_id: str = "t", *, split: Split = "train") -> Task:
    made = tool_task(f"do {task_id}", f"then {task_id}", task_id=task_id)
    return Task(
        task_id=task_id,
        split=split,
        origin=made.origin,
        skills=made.skills,
        body=made.body,
    )


def rollout(task_id: str = "t", *, said: str = "ls()", passed: bool = False) -> Rollout:
    tokens = Tokens(
        token_ids=columns.int32([1]),
        mask=columns.uint8([1]),
        logprobs=columns.float32([-1.0]),
        versions=columns.int32([0]),
    )
    return Rollout(
        group_id=f"g-{task_id}",
        group=0,
        index=0,
        group_size=2,
        task_id=task_id,
        seed=0,
        tokens=tokens,
        actions=(Action(turn=0, text=said, result="{}", failed=False),),
        turns_passed=2 * passed,
        turns_total=2,
        reward=float(passed),
        version_min=0,
        version_max=0,
        ended="finished" if passed else "wrong",
        wall_s=0.1,
    )


def signal(
    signal_id: str,
    *,
    kind: SignalKind = "forgetting",
    about: OnTask | OnPattern | Anything | None = None,
    score: float = 0.5,
    evidence: Sequence[int] = (),
    version: int = 0,
) -> Signal:
    return Signal(
        signal_id=signal_id,
        kind=kind,
        about=about or OnTask(task_id="t"),
        score=score,
        rule="test",
        evidence=tuple(evidence),
        policy_version=version,
    )


def version(number: int) -> PolicyVersion:
    return PolicyVersion(
        version=number, path="", format="full", digest="", size_bytes=0, kept=False
    )


def told(config: RunConfig) -> ToolBriefs:
    """Return the tool part of synthesis requests, with numbered worlds."""
    return ToolBriefs(config, source=NumberedSource())
