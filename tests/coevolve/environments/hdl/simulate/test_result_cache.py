"""A testbench with a result in the journal is not simulated again."""

import asyncio
import contextlib
import dataclasses
from pathlib import Path

import msgspec

from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Outcome,
    Stimulus,
    Testbench,
    TimedOut,
)
from coevolve.environments.hdl.simulate.result_cache import RecallingSimulator
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.hdl.simulate.verilator import evaluation_key
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.journal import Append, Receipt
from tests.coevolve.environments.hdl.policy.test_frontier import rollout
from tests.hdl_points import unit
from tests.hdl_simulators import ScriptedSimulator

TOOLS = Toolchain(
    verilator=Path("v"),
    include=Path("i"),
    clang=Path("c"),
    linker="mold",
    identity="tools 1",
    verilator_version="5.052",
    clang_version="19",
)
REQUEST = Evaluate(unit=unit(), submission=Testbench(text="module tb;"))


class Desk:
    def __init__(self, folder: Path, inner: ScriptedSimulator) -> None:
        self.store = LocalStore(Journal.open(folder, map_size_bytes=1 << 26))
        self.inner = inner
        self._writes = 0

    def simulator(self, toolchain: Toolchain = TOOLS) -> RecallingSimulator:
        return RecallingSimulator(self.inner, self.store, toolchain)

    async def remember(self, request: Evaluate, outcome: Outcome) -> None:
        """Write a rollout with the request's outcome."""
        text = request.submission.text if isinstance(request.submission, Testbench) else ""
        key = evaluation_key(TOOLS, request, text)
        self._writes += 1
        record = encode(rollout(0, 0, Graded(testbench=text, outcome=outcome, key=key)))
        receipt = Receipt(producer="test", counter=self._writes)
        await self.store.append(Append(records=(record,), receipt=receipt))


async def test_a_graded_testbench_is_answered_from_the_journal(tmp_path: Path):
    desk = Desk(tmp_path, ScriptedSimulator())
    first = await desk.simulator().evaluate(REQUEST)
    assert not first.cached
    await desk.remember(REQUEST, first.outcome)
    again = await desk.simulator().evaluate(REQUEST)
    assert (again.outcome, again.testbench) == (first.outcome, "module tb;")
    assert (again.cached, again.sandbox, again.stages) == (True, None, ())
    assert len(desk.inner.requests) == 1


async def test_another_seed_text_limit_or_toolchain_is_another_evaluation(tmp_path: Path):
    desk = Desk(tmp_path, ScriptedSimulator())
    await desk.remember(REQUEST, (await desk.inner.evaluate(REQUEST)).outcome)
    others = (
        msgspec.structs.replace(REQUEST, seed=2),
        msgspec.structs.replace(REQUEST, submission=Testbench(text="module tb ;")),
        msgspec.structs.replace(REQUEST, instance="uut"),
    )
    for other in others:
        assert not (await desk.simulator().evaluate(other)).cached
    changed = dataclasses.replace(TOOLS, identity="tools 2")
    assert not (await desk.simulator(changed).evaluate(REQUEST)).cached


async def test_a_timeout_is_not_cached(tmp_path: Path):
    desk = Desk(tmp_path, ScriptedSimulator())
    await desk.remember(REQUEST, TimedOut(stage="simulate", message="4 s"))
    assert not (await desk.simulator().evaluate(REQUEST)).cached


async def test_concurrent_equal_requests_are_simulated_once(tmp_path: Path):
    desk = Desk(tmp_path, ScriptedSimulator())
    simulator = desk.simulator()
    found = await asyncio.gather(*(simulator.evaluate(REQUEST) for _ in range(8)))
    assert len(desk.inner.requests) == 1
    assert sorted(each.cached for each in found) == [False] + 7 * [True]
    assert len({each.key for each in found}) == 1


async def test_stimulus_programs_are_not_cached(tmp_path: Path):
    desk = Desk(tmp_path, ScriptedSimulator())
    simulator = desk.simulator()
    request = msgspec.structs.replace(REQUEST, submission=Stimulus(program="step 1"))
    with contextlib.suppress(AssertionError):  # the scripted simulator accepts only testbenches
        await simulator.evaluate(request)
    assert desk.inner.requests == [request]
