"""The gates that a candidate has to pass by itself, in the order of `protocols.evolution.Gate`.

All rest on machine facts: what is written, and what the simulators and their verifier make of it.
What compares a candidate with other tasks comes after them (`tools.gates.similarity`).

CoEvolve's "retain on positive reward" clause stands behind ``positive_reward``: a candidate whose
reference fails is let through where some turn was passed nevertheless, and no gate that rests on a
sound reference is asked. It is off, because the reward says nothing of the candidate: a turn passes
where state and answers are the reference's, and a reference that fails agrees with itself. So the
clause admits tasks that cannot be solved as they are told, and the learner would imitate them.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import cast

import msgspec

from coevolve.environments.tools.commands import Failed, Passed, Tried, TriedTurn
from coevolve.environments.tools.gates import mutants
from coevolve.environments.tools.gates.form import MalformedError, read_reference, unknown_tool
from coevolve.environments.tools.gates.mutants import Slot, Turns
from coevolve.environments.tools.gates.reading import ReadCall, read_call, tools_of
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.gates.wording import invented, omitted
from coevolve.environments.tools.gates.worlds import names
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.validation.gates import Findings, Sound
from protocols.evolution import Candidate, Gate, Refused
from protocols.tasks import body_of

MAX_FOUND_CHARS = 240

ORDER: tuple[Gate, ...] = (
    "malformed",
    "unknown_tool",
    "replay_failed",
    "not_deterministic",
    "no_effect",
    "passes_without_acting",
    "passes_truncated",
    "passes_reordered",
    "passes_wrong_argument",
    "description_omits",
    "description_invents",
)
"""The gates in the order in which they are asked."""


class ToolGates:
    """`coevolve.validation.gates.Gates`: carries the calls of a candidate out."""

    def __init__(
        self, simulator: Simulator, *, calls_per_turn: int, positive_reward: bool = False
    ) -> None:
        """Refuse references that make more than ``calls_per_turn`` calls in a turn."""
        self._simulator = simulator
        self._calls_per_turn = calls_per_turn
        self._positive_reward = positive_reward

    async def examine(self, candidate: Candidate) -> Findings:
        """Ask gate after gate until one refuses.

        Raises:
            SimulatorError: A simulator broke again and again; nothing is known of the candidate.
        """
        try:
            body = read_body(candidate.body)
        except msgspec.MsgspecError as error:
            refused = Refused(gate="malformed", found=str(error)[:MAX_FOUND_CHARS])
            return Findings(outcome=refused, simulator_calls=0)
        trials = Trials(self._simulator, candidate.candidate_id, body)
        try:
            sound = await self._outcome(body, trials)
            outcome = Sound(body=body_of(sound), skills=_skills(sound))
        except _RefusedError as refusal:
            outcome = refusal.refused
        return Findings(outcome=outcome, simulator_calls=trials.calls)

    async def _outcome(self, body: ToolTask, trials: Trials) -> ToolTask:
        try:
            read = read_reference(body, self._calls_per_turn)
        except MalformedError as error:
            raise _RefusedError("malformed", str(error)) from error
        _refuse("unknown_tool", unknown_tool(body, read))
        turns = tuple(turn.reference for turn in body.turns)
        played = await trials.play(turns)
        fault = _replay_fault(turns, played)
        if fault and self._positive_reward and any(map(_passed, played.turns)):
            return _with_results(body, played)
        _refuse("replay_failed", fault)
        _refuse("not_deterministic", _difference(played, await trials.play(turns)))
        _refuse("no_effect", _idleness(played))
        await _refuse_weak_verifier(turns, read, played, names(body), trials)
        answers = [[observed.result for observed in turn.observed] for turn in played.turns]
        _refuse("description_omits", omitted(body.turns, read, answers, tools_of(body.classes)))
        _refuse("description_invents", invented(body.turns, read))
        return _with_results(body, played)


class _RefusedError(Exception):
    """A gate refused; only ever seen by `ToolGates.examine`."""

    def __init__(self, gate: Gate, found: str) -> None:
        super().__init__(found)
        self.refused = Refused(gate=gate, found=found[:MAX_FOUND_CHARS])


def _refuse(gate: Gate, found: str) -> None:
    if found:
        raise _RefusedError(gate, found)


def _passed(turn: TriedTurn) -> bool:
    return isinstance(turn.verdict, Passed)


def _skills(body: ToolTask) -> tuple[str, ...]:
    """Return the tools of each turn, in the order in which they are called."""
    tools = tools_of(body.classes)
    return tuple(
        "+".join(read_call(call, tools).tool for call in turn.reference) or "none"
        for turn in body.turns
    )


def _with_results(body: ToolTask, played: Tried) -> ToolTask:
    turns = tuple(
        msgspec.structs.replace(turn, results=tuple(each.result for each in tried.observed))
        for turn, tried in zip(body.turns, played.turns, strict=True)
    )
    return msgspec.structs.replace(body, turns=turns)


def _replay_fault(turns: Turns, played: Tried) -> str:
    """Return what is wrong with a replay of the reference; empty where nothing is."""
    for number, (calls, turn) in enumerate(zip(turns, played.turns, strict=True)):
        for call, observed in zip(calls, turn.observed, strict=True):
            if observed.failed:
                return f"turn {number + 1}: {call} answers {observed.result}"
        if not turn.state:
            return f"turn {number + 1} leaves a world that holds itself"
        if isinstance(turn.verdict, Failed):
            return f"turn {number + 1}: {turn.verdict.reason}"
    return ""


def _difference(first: Tried, second: Tried) -> str:
    if first.initial != second.initial:
        return "two fresh worlds differ"
    for number, (one, other) in enumerate(zip(first.turns, second.turns, strict=True)):
        for a, b in zip(one.observed, other.observed, strict=True):
            if a != b:
                return f"turn {number + 1}: once {a.result}, once {b.result}"
        if one != other:
            return f"turn {number + 1} leaves another world each time"
    return ""


def _idleness(played: Tried) -> str:
    """Return the first turn that changes nothing and answers nothing; empty where none is so."""
    before = played.initial
    for number, turn in enumerate(played.turns):
        answers = [observed.result for observed in turn.observed]
        if turn.state == before and all(map(_is_empty, answers)):
            shown = ", ".join(answers) or "there are no calls"
            return f"turn {number + 1} changes nothing and answers nothing: {shown}"
        before = turn.state
    return ""


def _is_empty(answer: str) -> bool:
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return answer in ("", "None")
    entries = cast("dict[str, object]", value).values() if isinstance(value, dict) else (value,)
    return not any(entry or entry == 0 for entry in entries)


async def _refuse_weak_verifier(
    turns: Turns,
    read: Sequence[Sequence[ReadCall]],
    played: Tried,
    seen: Sequence[str],
    trials: Trials,
) -> None:
    """Refuse a task whose verifier lets a mutant of the reference pass."""
    for mutant, tried in await _all_played(tuple(mutants.idle(turns)), trials):
        _refuse("passes_without_acting", _let_pass(mutant, turns, tried))
    for mutant, tried in await _all_played(tuple(mutants.truncated(turns)), trials):
        _refuse("passes_truncated", _let_pass(mutant, turns, tried))
    for mutant, tried in await _all_played(tuple(mutants.reordered(turns)), trials):
        if not _equivalent(tried, played):
            _refuse("passes_reordered", _let_pass(mutant, turns, tried))
    for slot, values in await _unguarded(turns, read, seen, trials):
        found = f"turn {slot.turn + 1}: {slot.tool}'s {slot.argument.name}={slot.argument.value!r}"
        others = ", ".join(map(repr, values))
        raise _RefusedError("passes_wrong_argument", f"{found} may as well be {others}")


async def _all_played(variants: Sequence[Turns], trials: Trials) -> list[tuple[Turns, Tried]]:
    tried = await asyncio.gather(*map(trials.play, variants))
    return list(zip(variants, tried, strict=True))


def _let_pass(mutant: Turns, turns: Turns, tried: Tried) -> str:
    """Return which mutant the verifier let pass; empty where it did not."""
    if not passes(tried):
        return ""
    changed = next(number for number, calls in enumerate(mutant) if calls != turns[number])
    return f"turn {changed + 1} passes with {'; '.join(mutant[changed])}"


def _equivalent(tried: Tried, played: Tried) -> bool:
    """Return whether a mutant reached the reference's states with the reference's answers."""
    return all(
        one.state == other.state
        and sorted(each.result for each in one.observed)
        == sorted(each.result for each in other.observed)
        for one, other in zip(tried.turns, played.turns, strict=True)
    )


async def _unguarded(
    turns: Turns, read: Sequence[Sequence[ReadCall]], seen: Sequence[str], trials: Trials
) -> list[tuple[Slot, tuple[object, ...]]]:
    """Return the arguments for which every wrong value passes, with these values."""

    async def all_pass(slot: Slot, values: Sequence[object]) -> bool:
        for value in values:
            if not passes(await trials.play(mutants.with_value(turns, read, slot, value))):
                return False
        return True

    every = mutants.slots(read)
    wrong = [(slot, mutants.wrong_values(slot, every, seen)) for slot in every]
    passed = await asyncio.gather(*(all_pass(slot, values) for slot, values in wrong))
    return [each for each, passes_all in zip(wrong, passed, strict=True) if passes_all]
