"""Tests of the gate of meaning, with a reader that knows what each instruction asks for."""

from collections.abc import Iterable
from contextlib import nullcontext
from itertools import islice
from random import Random

import pytest

from coevolve.environments.tools.gates.contrast import AskedReader
from coevolve.environments.tools.gates.decoys import MOST, decoys
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.reading import read_call, tools_of
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.synthesis.reader import EndpointReader
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.validation.gates import Findings, Sound
from protocols.errors import EndpointError
from protocols.evolution import Candidate, Refused
from protocols.tasks import Task
from tests.chat_server import fails, says, serving
from tests.meant.knowing import KnowingModel
from tests.planted import candidate, draws, reworded
from tests.simulated import InProcessSimulator
from tests.spoiling.calibration import GateCalibration, Sample, by_label
from tests.synthesizing import MemoryCalls, model_at


def perfect(tasks: Iterable[Task]) -> AskedReader:
    return AskedReader(KnowingModel(map(tool_task, tasks)), rebuilds=1)


async def examined(body: ToolTask, reader: InstructionReader) -> Findings:
    gates, asked = ToolGates(InProcessSimulator(), calls_per_turn=4, reader=reader), candidate(body)
    return await gates.read(asked, await gates.examine(asked))


def endpoint_reader(url: str, calls: MemoryCalls) -> EndpointReader:
    async def account_of(candidate: Candidate) -> Account:
        return Account(calls=nullcontext(calls), kind="rare")

    return EndpointReader(model_at(url), account_of=account_of)


async def test_decoys_do_something_else_than_the_reference() -> None:
    for task in islice(draws(5), 6):
        body = tool_task(task)
        trials = Trials(InProcessSimulator(), task.task_id, body)
        tools = tools_of(body.classes)
        read = [[read_call(call, tools) for call in turn.reference] for turn in body.turns]
        found = await decoys(body, read, trials, Random(0))
        assert 1 <= len(set(found)) == len(found) <= MOST
        assert not any([passes(await trials.play(turns)) for turns in found])


async def test_a_perfect_reader_admits_own_tasks_and_no_planted_fault() -> None:
    simulator, tasks = InProcessSimulator(), list(islice(draws(12), 12))
    gates = ToolGates(simulator, calls_per_turn=4, reader=perfect(tasks))
    calibration = GateCalibration(gates, simulator, Sample(given=9, planted=1, seed=0))
    found = await calibration.rates(by_label({task.task_id: "all" for task in tasks}, tasks))
    assert [len(each.admitted) for each in found.given] == [9]
    assert sum(each.candidates for each in found.planted) >= 16
    assert not [each.kind for each in found.planted if each.admitted]
    gates_used = {refusal.gate for each in found.planted for refusal in each.refusals}
    assert "means_otherwise" in gates_used


async def test_the_verdict_has_the_evidence() -> None:
    task = next(draws(31))
    body, reader = tool_task(task), perfect([task])
    sound = await examined(body, reader)
    assert isinstance(sound.outcome, Sound)
    assert (sound.reading.reader, sound.reading.outcome) == ("perfect", "confirmed")
    wrong = await examined(reworded(body, 0, f"Whatever. {body.turns[0].instruction}"), reader)
    assert isinstance(wrong.outcome, Refused)
    assert wrong.outcome.gate == "means_otherwise"
    assert wrong.reading.outcome == "refuted"
    assert "picked none of" in wrong.outcome.found


async def test_an_endpoint_that_fails_or_talks_nonsense_refuses_nothing() -> None:
    body, calls = tool_task(next(draws(31))), MemoryCalls()
    with serving(lambda messages: "perhaps") as server:
        reader = endpoint_reader(server.base_url, calls)
        asked = AskedReader(reader, rebuilds=1)
        server.then(fails(401))
        with pytest.raises(EndpointError):
            await examined(body, asked)
        unread = await examined(body, asked)
        assert isinstance(unread.outcome, Sound)
        assert unread.reading.outcome == "unread"
        server.then(says('{"reason": "", "picks": [99]}'), says('{"reason": "no", "picks": []}'))
        refuted = await examined(body, asked)
        assert (refuted.reading.reader, refuted.reading.outcome) == ("scripted", "refuted")
        await reader.close()
    assert {call.purpose for call in calls.calls.values()} == {"read"}
