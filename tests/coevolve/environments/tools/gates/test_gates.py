"""Tests of the gates on BFCL's real simulators."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.cells import held_out_pair
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.filesystem.grammar import held_out_tasks
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.order import ORDER
from coevolve.environments.tools.gates.trials import TRIES, passes
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.trial import TrialRun
from coevolve.validation.gates import Findings, Sound
from protocols.errors import SimulatorError
from protocols.evolution import Candidate, Gate, Refused
from tests.planted import (
    SPOILT,
    candidate,
    draws,
    said,
    single,
    some_file,
    some_folder,
    with_turns,
)
from tests.simulated import InProcessSimulator


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
    bodies = list(islice(SPOILT[spoilt](), 12))
    refused = Counter([gate(await examined(body)) for body in bodies])
    assert refused.pop("", 0) <= 1
    assert refused[spoilt] >= 6
    assert set(refused) <= set(ORDER[: ORDER.index(spoilt) + 1])


@pytest.mark.parametrize("about", ["answers", "states", "worlds"])
async def test_a_candidate_with_varying_results_is_refused(about: str) -> None:
    judging = ToolGates(FickleSimulator(about), calls_per_turn=4)
    for task in islice(draws(1), 5):
        assert gate(await judging.examine(candidate(read_body(task.body)))) == "not_deterministic"


async def test_a_pair_of_requests_for_held_out_tasks_alone_is_refused() -> None:
    judging = ToolGates(InProcessSimulator(), calls_per_turn=4, held_out_cell=held_out_pair)
    bodies = [read_body(task.body) for task in held_out_tasks(120)[60:]]
    refused = [gate(await judging.examine(candidate(body))) == "contaminated" for body in bodies]
    assert refused == [bool(held_out_pair(body)) for body in bodies]
    assert 5 <= sum(refused) <= 30


async def test_everything_sound_passes() -> None:
    for task in islice(draws(77), 40):
        assert gate(await examined(read_body(task.body))) == ""


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


def ticket(*turns: ToolTurn, **settings: Any) -> ToolTask:
    world = json.dumps({"TicketAPI": {}})
    return ToolTask(classes=("TicketAPI",), world=world, turns=turns, **settings)


LOGIN = "ticket_login(username='kim', password='whatever it is')"


async def test_a_value_that_nobody_can_see_need_be_neither_checked_nor_said() -> None:
    body = ticket(said("Log me in, I'm kim, and open a ticket titled 'Leak'.", LOGIN, CREATE))
    assert gate(await examined(body)) == ""
    unsaid = ticket(said("Log me in and open a ticket titled 'Leak'.", LOGIN, CREATE))
    assert gate(await examined(unsaid)) == "description_omits"


CREATE = "create_ticket(title='Leak')"


async def test_a_value_that_matters_beside_some_other_values_has_to_be_said() -> None:
    log = {"type": "file", "content": "one\ntwo\nthree"}
    home = {"home": {"type": "directory", "contents": {"log.txt": log}}}
    body = ToolTask(
        classes=("GorillaFileSystem",),
        world=json.dumps({"GorillaFileSystem": {"root": home}}),
        turns=(),
    )
    tail = "tail(file_name='log.txt', lines=7)"  # shows all three lines, as 3 or 8 would
    vague = with_turns(body, [said("Show me the end of 'log.txt'.", tail)])
    assert gate(await examined(vague)) == "description_omits"
    exact = with_turns(body, [said("Show me the last 7 lines of 'log.txt'.", tail)])
    assert gate(await examined(exact)) == ""


async def test_a_missing_tool_makes_a_turn_without_calls_right() -> None:
    asked = said("I am kim. Log me in, and open a ticket titled 'Leak'.")
    given = ToolTurn(instruction="", reference=(LOGIN, CREATE), revealed=("create_ticket",))
    findings = await examined(ticket(asked, given, withheld=("create_ticket",)))
    assert isinstance(findings.outcome, Sound)
    body = read_body(findings.outcome.body)
    assert body.strict
    hasty = TrialRun(body, ((LOGIN,), (LOGIN, CREATE))).play()
    assert not passes(hasty)
    assert passes(TrialRun(body, ((), (LOGIN, CREATE))).play())
    revealed = ticket(asked, msgspec.structs.replace(given, instruction="Go on.", revealed=()))
    assert gate(await examined(revealed)) == "nothing_missing"


async def test_a_missing_value_makes_a_turn_without_calls_right() -> None:
    vague = said("I am kim. Log me in, and open a ticket.")
    named = said("Call it 'Leak'.", LOGIN, CREATE)
    findings = await examined(ticket(vague, named))
    assert isinstance(findings.outcome, Sound)
    body = read_body(findings.outcome.body)
    assert not passes(TrialRun(body, ((LOGIN, CREATE), (LOGIN, CREATE))).play())
    clear = said("I am kim. Log me in, and open a ticket 'Leak'.")
    assert gate(await examined(ticket(clear, named))) == "nothing_missing"


async def test_what_a_reading_call_shows_need_not_be_said_if_the_words_single_it_out() -> None:
    world = {"TradingBot": {"stocks": {"OMEG": STOCK, "ZETA": STOCK}, "watch_list": []}}
    body = ToolTask(
        classes=("TradingBot",),
        world=json.dumps(world),
        turns=(said("Watch Omega Industries for me.", "add_to_watchlist(stock='OMEG')"),),
    )
    assert gate(await examined(body)) == ""
    vague = with_turns(body, [said("Watch it for me.", "add_to_watchlist(stock='OMEG')")])
    assert gate(await examined(vague)) == "description_omits"
    named = said("Watch 'Omega Industries'.", "add_to_watchlist(stock='OMEG')")
    assert gate(await examined(with_turns(body, [named]))) == ""
    both = said("Watch 'Omega Industries', 'Zeta Corp'.", "add_to_watchlist(stock='OMEG')")
    assert gate(await examined(with_turns(body, [both]))) == "description_invents"


STOCK = {"price": 1.0, "percent_change": 0.0, "volume": 1.0, "MA(5)": 1.0, "MA(20)": 1.0}


@pytest.mark.parametrize(("amount", "refused"), [(15, ""), (16, "description_omits")])
async def test_a_number_may_be_the_multiple_that_is_asked_for(amount: int, refused: str) -> None:
    body = ToolTask(
        classes=("VehicleControlAPI",),
        world=json.dumps({"VehicleControlAPI": {"fuelLevel": 7.5}}),
        turns=(
            said(
                "See how much fuel is left, and fill in double that amount.",
                "displayCarStatus(option='fuel')",
                f"fillFuelTank(fuelAmount={amount})",
            ),
        ),
    )
    assert gate(await examined(body)) == refused


@pytest.mark.parametrize(("named", "refused"), [("a.txt", ""), ("b.txt", "description_invents")])
async def test_a_quotation_may_name_what_a_later_turn_takes(named: str, refused: str) -> None:
    file = {"type": "file", "content": "one"}
    docs = {"type": "directory", "contents": {"a.txt": file}}
    root = {"workspace": {"type": "directory", "contents": {"docs": docs}}}
    body = ToolTask(
        classes=("GorillaFileSystem",),
        world=json.dumps({"GorillaFileSystem": {"root": root}}),
        turns=(
            said(f"I have '{named}' in 'docs'. Go to 'docs'.", "cd(folder='docs')"),
            said("Read 'a.txt'.", "cat(file_name='a.txt')"),
        ),
    )
    assert gate(await examined(body)) == refused


async def test_a_repeated_reading_is_graded_strictly_because_its_answer_is_known() -> None:
    body = read_body(next(single(6, "cat")).body)
    again = with_turns(body, (*body.turns, *body.turns))
    findings = await examined(again)
    assert isinstance(findings.outcome, Sound)
    assert read_body(findings.outcome.body).strict


async def test_the_last_lines_of_a_short_file_are_the_same_for_every_number() -> None:
    for task in islice(single(6, "tail"), 6):
        assert gate(await examined(read_body(task.body))) == ""


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


async def test_most_of_the_benchmark_s_own_tasks_pass() -> None:
    judging = ToolGates(InProcessSimulator(), calls_per_turn=20)
    for category in ("base", "miss_func", "miss_param"):
        refused = Counter(
            [
                gate(await judging.examine(candidate(read_body(task.body))))
                for task in load_tasks([category])[::50]
            ]
        )
        assert refused[""] >= 2, (category, refused)
