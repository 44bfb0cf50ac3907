"""Tests of the gates on BFCL's real simulators."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import msgspec
import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.filesystem.simulated import InProcessSimulator
from coevolve.environments.tools.gates.gates import ORDER, ToolGates
from coevolve.environments.tools.gates.trials import TRIES
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.validation.gates import Findings, Sound
from protocols.errors import SimulatorError
from protocols.evolution import Candidate, Gate, Refused
from tests.planted import (
    SPOILT,
    candidate,
    contents,
    draws,
    said,
    single,
    some_file,
    some_folder,
    with_turns,
)


def gates(*, positive_reward: bool = False) -> ToolGates:
    return ToolGates(InProcessSimulator(), calls_per_turn=4, positive_reward=positive_reward)


async def examined(body: ToolTask, **settings: bool) -> Findings:
    return await gates(**settings).examine(candidate(body))


def gate(findings: Findings) -> str:
    return findings.outcome.gate if isinstance(findings.outcome, Refused) else ""


class FickleSimulator(InProcessSimulator):
    """Gives the last turn another result in each trial of a candidate."""

    def __init__(self, about: str) -> None:
        super().__init__()
        self._about = about

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        tried = await super().trial(name, task, turns)
        last = tried.turns[-1]
        match self._about:
            case "answers":
                answer = msgspec.structs.replace(last.observed[-1], result=f'{{"id": "{name}"}}')
                changed = msgspec.structs.replace(last, observed=(*last.observed[:-1], answer))
            case "states":
                changed = msgspec.structs.replace(last, state=name)
            case _:
                return msgspec.structs.replace(tried, initial=name)
        return msgspec.structs.replace(tried, turns=(*tried.turns[:-1], changed))


class FailingSimulator(InProcessSimulator):
    """Fails the given number of times, then works."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        if self.left:
            self.left -= 1
            raise SimulatorError("the child died")
        return await super().trial(name, task, turns)


@pytest.mark.parametrize("spoilt", SPOILT)
async def test_a_spoilt_candidate_is_refused_by_its_gate_or_an_earlier_one(spoilt: Gate) -> None:
    bodies = list(islice(SPOILT[spoilt](), 20))
    refused = Counter([gate(await examined(body)) for body in bodies])
    assert len(bodies) >= 12
    assert refused[spoilt] >= 10
    assert set(refused) <= set(ORDER[: ORDER.index(spoilt) + 1])


@pytest.mark.parametrize("about", ["answers", "states", "worlds"])
async def test_a_candidate_with_varying_results_is_refused(about: str) -> None:
    judging = ToolGates(FickleSimulator(about), calls_per_turn=4)
    for task in islice(draws(1), 5):
        assert gate(await judging.examine(candidate(read_body(task.body)))) == "not_deterministic"


async def test_nearly_everything_sound_passes_and_the_rest_has_a_weak_verifier() -> None:
    tasks = list(islice(draws(77), 120))
    findings = [await examined(read_body(task.body)) for task in tasks]
    refused = Counter(filter(None, map(gate, findings)))
    assert refused.total() <= 0.05 * len(tasks)
    assert set(refused) <= {"passes_without_acting", "passes_truncated", "passes_wrong_argument"}


async def test_a_sound_candidate_gets_the_simulators_answers() -> None:
    task = next(draws(3))
    bare = [msgspec.structs.replace(turn, results=()) for turn in read_body(task.body).turns]
    findings = await examined(with_turns(read_body(task.body), bare))
    assert isinstance(findings.outcome, Sound)
    assert findings.outcome.body == task.body
    assert findings.simulator_calls > 2 * sum(len(turn.reference) for turn in bare)


async def test_another_order_with_the_same_outcome_is_no_mutant() -> None:
    body = read_body(next(draws(4)).body)
    calls = "touch(file_name='zebra.txt')", "mkdir(dir_name='zoo')"
    turn = said("Create a file 'zebra.txt' and a folder 'zoo'.", *calls)
    assert gate(await examined(with_turns(body, [turn]))) == ""


async def test_a_refusal_describes_what_was_found() -> None:
    body = read_body(next(draws(5)).body)
    file = some_file(body)
    found = {
        said("Read 'zebra'.", "cat(file_name='zebra')"): "turn 1: cat(file_name='zebra') answers",
        said("Look.", "look()"): "there is no tool look",
        said(f"Read '{file}' twice.", f"cat(file_name='{file}')"): "",
        said("Read it.", f"cat(file_name='{file}')"): f"turn 1 does not say file_name='{file}'",
        said(f"Read '{file}' or 'x.md'.", f"cat(file_name='{file}')"): "turn 1 speaks of 'x.md'",
    }
    for turn, words in found.items():
        outcome = (await examined(with_turns(body, [turn]))).outcome
        assert (words in outcome.found) if isinstance(outcome, Refused) else not words


async def test_a_guard_is_needed_for_every_argument() -> None:
    for task in islice(single(6, "tail"), 12):
        (turn,) = read_body(task.body).turns
        findings = await examined(read_body(task.body))
        (name,) = re.findall("'(.*)'", turn.instruction)
        one_line = "\n" not in contents(read_body(task.body))[name]["content"]
        assert gate(findings) == ("passes_wrong_argument" if one_line else "")
        assert not one_line or "tail's lines=" in str(findings.outcome)


async def test_a_failing_simulator_is_retried_and_refuses_nothing() -> None:
    asked: Candidate = candidate(read_body(next(draws(7)).body))
    sound = ToolGates(FailingSimulator(TRIES - 1), calls_per_turn=4)
    assert gate(await sound.examine(asked)) == ""
    broken = ToolGates(FailingSimulator(1000), calls_per_turn=4)
    with pytest.raises(SimulatorError, match="the child died"):
        await broken.examine(asked)


async def test_the_clause_of_the_positive_reward_lets_a_failing_reference_through() -> None:
    for task in islice(draws(8), 5):
        bad = said("Read 'zebra'.", "cat(file_name='zebra')")
        body = with_turns(read_body(task.body), (*read_body(task.body).turns, bad))
        assert gate(await examined(body)) == "replay_failed"
        findings = await examined(body, positive_reward=True)
        assert gate(findings) == ""
        assert isinstance(findings.outcome, Sound)
        assert "error" in read_body(findings.outcome.body).turns[-1].results[0]
        folder = some_folder(body)
        cyclic = said("Copy.", f"cp(source='{folder}', destination='{folder}')")
        none_passes = with_turns(body, [cyclic])
        assert gate(await examined(none_passes, positive_reward=True)) == "replay_failed"


async def test_the_benchmark_s_own_tasks_are_refused_for_reasons_that_hold() -> None:
    judging = ToolGates(InProcessSimulator(), calls_per_turn=40)
    refused = Counter(
        [
            gate(await judging.examine(candidate(read_body(task.body))))
            for task in load_tasks(["base"])[:40]
        ]
    )
    assert not {"unknown_tool", "replay_failed", "not_deterministic"} & set(refused)
    assert refused[""] >= 1
