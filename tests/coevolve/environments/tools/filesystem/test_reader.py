"""Tests of the tiny policy as a reader, and of its forward."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice

import msgspec
import pytest
import torch

from coevolve.environments.tools.filesystem.abstraction import trajectory
from coevolve.environments.tools.filesystem.reader import PolicyReader, TinyForward
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.synthesis.accounts import Account
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY_FOLDER
from protocols.evolution import Candidate, Reading
from tests.planted import candidate, draws, single, with_turns
from tests.simulated import InProcessSimulator
from tests.synthesizing import MemoryCalls


def reader(calls: MemoryCalls) -> PolicyReader:
    async def account_of(candidate: Candidate) -> Account:
        return Account(calls=nullcontext(calls), kind="rare")

    return PolicyReader(TINY_FOLDER, account_of=account_of)


async def readings(bodies: Sequence[ToolTask], calls: MemoryCalls) -> list[Reading]:
    reads, simulator = reader(calls), InProcessSimulator()
    return [
        await reads.read(candidate(body), body, Trials(simulator, "read", body)) for body in bodies
    ]


def test_the_forward_gives_the_probabilities_of_transformers() -> None:
    model, renderer = read_model(TINY_FOLDER).eval(), TinyRenderer.load(TINY_FOLDER)
    turn = tool_task(next(draws(5))).turns[0]
    prompt = trajectory(renderer, turn.reference, turn.results)
    answer = renderer.encode(turn.instruction)
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    expected = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(answer)[:, None])
    found = TinyForward(TINY_FOLDER).logprobs(prompt, answer)
    assert found == pytest.approx(expected[:, 0].tolist(), abs=1e-4)


async def test_the_policy_confirms_its_users_requests_and_nothing_that_it_cannot_read() -> None:
    calls = MemoryCalls()
    tasks = list(map(tool_task, islice(draws(12), 12)))
    assert {each.outcome for each in await readings(tasks, calls)} == {"confirmed"}
    delete = tool_task(next(single(3, "rm")))
    (turn,) = delete.turns
    name = turn.reference[0].split("'")[1]
    others = (f"Show me '{name}'.", f"Never delete '{name}'.", f"I am done with '{name}'.")
    wrong = [
        with_turns(delete, [msgspec.structs.replace(turn, instruction=text)]) for text in others
    ]
    assert [each.outcome for each in await readings(wrong, calls)] == ["unread"] * 3
    assert {call.purpose for call in calls.calls.values()} == {"read"}
    assert len(calls.calls) == 15


async def test_a_recorded_reading_is_not_made_again_and_the_budget_is_kept() -> None:
    calls, body = MemoryCalls(), tool_task(next(draws(5)))
    reads, asked = reader(calls), candidate(tool_task(next(draws(5))))
    trials = Trials(InProcessSimulator(), "read", body)
    assert await reads.read(asked, body, trials) == await reads.read(asked, body, trials)
    assert len(calls.reserved) == 1
    poor = await readings([body], MemoryCalls(most_tokens=10))
    assert (poor[0].outcome, poor[0].found) == ("unread", "10 tokens are left")
