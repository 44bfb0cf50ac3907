import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from coevolve.environments.tools.commands import Observed
from coevolve.environments.tools.filesystem.grammar import uniform_task
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.brief import tool_context
from coevolve.environments.tools.synthesis.endpoint import UNGUIDED, EndpointSynthesizer
from coevolve.environments.tools.task import ToolTask, read_body
from protocols.errors import AnswerError, EndpointError, OverBudgetError, SimulatorError
from protocols.interfaces import Synthesizer
from protocols.synthesis import Anything, Brief
from tests.chat_server import ChatServer, Messages, fails, file_system_brain, is_slow, serving
from tests.simulated import InProcessSimulator
from tests.synthesizing import MemoryCalls, brief_about, model_at, with_context

BODY = read_body(uniform_task(0, 1).body)
CANARY = "kestrel"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as server:
        yield server


@asynccontextmanager
async def synthesizer_at(
    base_url: str, simulator: Simulator | None = None, **changes: object
) -> AsyncGenerator[Synthesizer]:
    model = model_at(base_url, **changes)
    synthesizer = EndpointSynthesizer(model, simulator=simulator or InProcessSimulator())
    try:
        yield synthesizer
    finally:
        await synthesizer.close()


async def test_a_brief_becomes_tasks_that_execute(server: ChatServer) -> None:
    brief = brief_about(BODY)
    calls = MemoryCalls()
    async with synthesizer_at(server.base_url) as synthesizer:
        await synthesizer.check()
        found = await synthesizer.synthesize(brief, calls)
        assert synthesizer.name == "scripted"
        assert synthesizer.cpu_s() == 0
    assert [each.exploration_id for each in found.explorations] == ["signal-7-r0", "signal-7-r1"]
    for exploration in found.explorations:
        assert exploration.signal_id == "signal-7"
        assert exploration.start == "grammar:world:1"
        assert exploration.steps[0].text == "ls()"
        assert len(exploration.steps) == brief.steps
        assert not any(step.failed for step in exploration.steps)
        assert exploration.reflection.failure_cause == "It guesses names."
    assert {len(read_body(candidate.body).turns) for candidate in found.candidates} == {1, 2}
    ids = [candidate.candidate_id for candidate in found.candidates]
    assert len(set(ids)) == len(ids) >= 8
    assert ids[0] == "signal-7-r0-t0"
    for candidate in found.candidates:
        body = read_body(candidate.body)
        assert (candidate.synthesizer, candidate.policy_version) == ("scripted", 3)
        assert (body.world, body.checks_directory) == (BODY.world, True)
        tried = await InProcessSimulator().trial("t", body, [t.reference for t in body.turns])
        for turn, played in zip(body.turns, tried.turns, strict=True):
            assert turn.results == tuple(answer.result for answer in played.observed)
            assert not any(answer.failed for answer in played.observed)
    tried_calls = sum(len(t.reference) for c in found.candidates for t in read_body(c.body).turns)
    assert found.simulator_calls == tried_calls + sum(len(e.steps) for e in found.explorations)
    assert [call.purpose for _, call in sorted(calls.calls.items())] == [
        "reflect",
        *(*["explore"] * 6, "abstract"),
        *(*["explore"] * 6, "abstract"),
    ]
    assert sorted(calls.calls) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28]


async def test_recorded_calls_are_replayed_without_the_endpoint(server: ChatServer) -> None:
    calls, brief = MemoryCalls(), brief_about(BODY)
    async with synthesizer_at(server.base_url) as synthesizer:
        found = await synthesizer.synthesize(brief, calls)
    asked = len(server.requests)
    with serving() as gone:
        pass
    async with synthesizer_at(gone.base_url, tries=1) as synthesizer:
        assert await synthesizer.synthesize(brief, calls) == found
        with pytest.raises(EndpointError):
            await synthesizer.check()
    assert len(server.requests) == asked == len(calls.calls) == len(calls.reserved)


async def test_unfinished_work_continues_from_the_recorded_calls(server: ChatServer) -> None:
    whole, brief = MemoryCalls(), brief_about(BODY)
    async with synthesizer_at(server.base_url) as synthesizer:
        found = await synthesizer.synthesize(brief, whole)
        for kept in (1, 3, len(whole.calls) - 1):
            resumed = MemoryCalls()
            resumed.calls.update(list(whole.calls.items())[:kept])
            asked = len(server.requests)
            assert await synthesizer.synthesize(brief, resumed) == found
            assert len(server.requests) - asked == len(whole.calls) - kept


async def test_tokens_and_money_are_counted_and_reserved_beforehand(server: ChatServer) -> None:
    calls = MemoryCalls()
    async with synthesizer_at(
        server.base_url,
        max_answer_tokens=500,
        usd_per_million_prompt_tokens=3.0,
        usd_per_million_answer_tokens=15.0,
    ) as synthesizer:
        await synthesizer.synthesize(brief_about(BODY, rounds=1), calls)
    made = [calls.calls[ordinal] for ordinal in sorted(calls.calls)]
    assert len(made) > 2
    for call, received, (prompt, answer, usd) in zip(
        made, server.requests, calls.reserved, strict=True
    ):
        assert json.loads(call.prompt) == received.body["messages"]
        assert call.prompt_tokens == len(received.prompt.split())
        assert 0 < call.answer_tokens <= answer == 500
        assert 0 < call.prompt_tokens < prompt
        assert call.cost_usd == pytest.approx(
            (3 * call.prompt_tokens + 15 * call.answer_tokens) / 1e6
        )
        assert usd == pytest.approx((3 * prompt + 15 * answer) / 1e6)
        assert call.wall_s > 0
        assert (call.model, call.kind, call.signal_id) == ("scripted", "boundary", "signal-7")


async def test_a_call_beyond_the_budget_is_not_made(server: ChatServer) -> None:
    async with synthesizer_at(server.base_url) as synthesizer:
        with pytest.raises(OverBudgetError):
            await synthesizer.synthesize(brief_about(BODY), MemoryCalls(most_tokens=2_000))
        assert not server.requests
        calls = MemoryCalls(most_tokens=9_500)
        with pytest.raises(OverBudgetError):
            await synthesizer.synthesize(brief_about(BODY, rounds=1), calls)
    assert len(server.requests) == len(calls.calls) > 0


async def test_no_word_of_a_reference_reaches_the_endpoint(server: ChatServer) -> None:
    turns = tuple(
        msgspec.structs.replace(
            turn, reference=(f"mkdir(dir_name='{CANARY}')",), results=(f"made {CANARY}",)
        )
        for turn in BODY.turns
    )
    async with synthesizer_at(server.base_url) as synthesizer:
        brief = brief_about(msgspec.structs.replace(BODY, turns=turns))
        assert (await synthesizer.synthesize(brief, MemoryCalls())).candidates
    assert len(server.requests) == 15
    assert not any(CANARY in json.dumps(request.body) for request in server.requests)


async def test_exploring_freely_asks_for_no_reflection(server: ChatServer) -> None:
    calls = MemoryCalls()
    async with synthesizer_at(server.base_url) as synthesizer:
        brief = brief_about(BODY, about=Anything(), rounds=1)
        found = await synthesizer.synthesize(brief, calls)
    assert found.candidates
    assert found.explorations[0].reflection == UNGUIDED
    assert min(calls.calls) == 2


def garbling(place: str, times: int) -> Callable[[Messages], str]:
    """Return a brain that answers garbage to the first ``times`` prompts that contain ``place``."""
    left = [times]

    def brain(messages: Messages) -> str:
        if left[0] and place in messages[0]["content"]:
            left[0] -= 1
            return '{"summary": 3, "action": ['
        return file_system_brain(messages)

    return brain


@pytest.mark.parametrize("place", ['"failure_cause"', '"action"', '"tasks"'])
async def test_an_unusable_answer_is_asked_again_with_the_complaint(place: str) -> None:
    calls = MemoryCalls()
    with serving(garbling(place, 1)) as server:
        async with synthesizer_at(server.base_url) as synthesizer:
            found = await synthesizer.synthesize(brief_about(BODY, rounds=1), calls)
    assert found.candidates
    assert [ordinal % 2 for ordinal in calls.calls].count(1) == 1
    (again,) = [call for ordinal, call in calls.calls.items() if ordinal % 2]
    *_, garbage, complaint = json.loads(again.prompt)
    assert garbage["content"] == '{"summary": 3, "action": ['
    assert "does not parse: Expecting value" in complaint["content"]


async def test_a_reflection_that_is_garbage_twice_is_an_error() -> None:
    with serving(lambda messages: "garbage") as server:
        async with synthesizer_at(server.base_url) as synthesizer:
            with pytest.raises(AnswerError) as caught:
                await synthesizer.synthesize(brief_about(BODY), MemoryCalls())
    assert str(caught.value) == (
        f"the model scripted at {server.base_url} was asked twice to reflect for signal signal-7 "
        "and gave no usable answer: it holds no JSON object; then: it holds no JSON object; "
        "a larger max_answer_tokens or a stronger model may help"
    )
    assert len(server.requests) == 2


class Worlds(InProcessSimulator):
    """Records which sessions are open; may fail."""

    def __init__(self, breaks_after: int = 10_000) -> None:
        super().__init__()
        self.open: set[str] = set()
        self.opened: list[str] = []
        self._left = breaks_after

    async def reset(self, session: str, task: ToolTask) -> None:
        self.open.add(session)
        self.opened.append(session)
        await super().reset(session, task)

    async def act(self, session: str, text: str) -> Observed:
        self._left -= 1
        if self._left < 0:
            raise SimulatorError("the child ended")
        return await super().act(session, text)

    async def release(self, session: str) -> None:
        self.open.discard(session)
        await super().release(session)


def two_worlds() -> tuple[Brief, str]:
    """Return a request whose second round starts in another world, and a name unique to that."""
    other = ToolTask(
        classes=BODY.classes,
        world=json.dumps(
            {
                "GorillaFileSystem": {
                    "root": {
                        "workspace": {
                            "type": "directory",
                            "contents": {"odd.txt": {"type": "file", "content": "a"}},
                        }
                    }
                }
            }
        ),
        turns=BODY.turns,
    )
    brief = brief_about(BODY)
    starts = (tool_context(brief).starts[0], tool_context(brief_about(other)).starts[0])
    return with_context(brief, starts=starts), "odd.txt"


async def test_a_round_without_usable_answers_is_left_out() -> None:
    brief, odd = two_worlds()

    def brain(messages: Messages) -> str:
        if odd in "".join(message["content"] for message in messages[2:]):
            return "garbage"
        return file_system_brain(messages)

    worlds = Worlds()
    with serving(brain) as server:
        async with synthesizer_at(server.base_url, worlds) as synthesizer:
            found = await synthesizer.synthesize(brief, MemoryCalls())
    assert [each.exploration_id for each in found.explorations] == ["signal-7-r0"]
    assert {each.exploration_id for each in found.candidates} == {"signal-7-r0"}
    tried_calls = sum(len(t.reference) for c in found.candidates for t in read_body(c.body).turns)
    assert found.simulator_calls == tried_calls + len(found.explorations[0].steps) + 1
    assert sorted(worlds.opened) == ["explore-signal-7-r0", "explore-signal-7-r1"]
    assert not worlds.open


async def test_no_usable_round_at_all_is_an_error() -> None:
    with serving(garbling('"tasks"', 100)) as server:
        async with synthesizer_at(server.base_url) as synthesizer:
            with pytest.raises(AnswerError, match="asked twice to abstract for signal signal-7"):
                await synthesizer.synthesize(brief_about(BODY), MemoryCalls())


async def test_a_failing_endpoint_ends_the_brief_and_leaves_no_session(server: ChatServer) -> None:
    worlds = Worlds()
    refusing = [fails(401)] * 50
    async with synthesizer_at(server.base_url, worlds) as synthesizer:
        calls = MemoryCalls()
        brief = brief_about(BODY)
        await synthesizer.synthesize(brief, calls)
        part = MemoryCalls()
        part.calls.update(list(calls.calls.items())[:7])
        server.then(*refusing)
        with pytest.raises(EndpointError, match="status 401"):
            await synthesizer.synthesize(brief, part)
    assert not worlds.open


async def test_an_endpoint_that_hangs_ends_the_brief_in_time(server: ChatServer) -> None:
    server.then(*[is_slow] * 10)
    started = time.monotonic()
    async with synthesizer_at(server.base_url, timeout_s=0.5, tries=2) as synthesizer:
        with pytest.raises(EndpointError, match="no answer within"):
            await synthesizer.synthesize(brief_about(BODY), MemoryCalls())
    assert time.monotonic() - started < 5


async def test_a_broken_simulator_ends_the_brief(server: ChatServer) -> None:
    worlds = Worlds(breaks_after=3)
    async with synthesizer_at(server.base_url, worlds) as synthesizer:
        with pytest.raises(SimulatorError, match="the child ended"):
            await synthesizer.synthesize(brief_about(BODY), MemoryCalls())
    assert not worlds.open


async def test_a_task_that_does_not_execute_is_handed_on_without_results() -> None:
    bad = {"instruction": "Show 'gone.txt'.", "calls": ["ls()", "cat(file_name='gone.txt')"]}
    good = {"instruction": "List what is here.", "calls": ["ls()"]}

    def brain(messages: Messages) -> str:
        if '"tasks"' in messages[0]["content"]:
            return json.dumps({"tasks": [{"turns": [good, bad]}, {"turns": [good]}]})
        return file_system_brain(messages)

    with serving(brain) as server:
        async with synthesizer_at(server.base_url) as synthesizer:
            found = await synthesizer.synthesize(brief_about(BODY, rounds=1), MemoryCalls())
    failing, executing = found.candidates
    assert [turn.results for turn in read_body(failing.body).turns] == [(), ()]
    assert [len(turn.results) for turn in read_body(executing.body).turns] == [1]


async def test_nothing_found_is_no_error() -> None:
    def brain(messages: Messages) -> str:
        if '"action"' in messages[0]["content"]:
            return '{"done": true}'
        return file_system_brain(messages)

    with serving(brain) as server:
        async with synthesizer_at(server.base_url) as synthesizer:
            found = await synthesizer.synthesize(brief_about(BODY, rounds=1), MemoryCalls())
    assert (found.candidates, found.simulator_calls) == ((), 0)
    assert found.explorations[0].steps == ()
    assert len(server.requests) == 2
