"""The gates that a candidate passes on its own, in the order of `protocols.evolution.Gate`.

All use facts: the candidate's text, and the results of simulators and their verifier. Comparisons
with other tasks come after them (`tools.gates.similarity`).

``positive_reward`` turns on CoEvolve's "retain on positive reward" clause: a candidate whose
reference fails is admitted if some turn passed, and the gates that need a sound reference are
skipped. The default is off, because that reward says nothing about the candidate: a turn passes if
its state and answers equal the reference's, and a failing reference equals itself. So the clause
admits tasks that cannot be solved as their instructions ask, and the learner would imitate them.
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
"""The gates in the order in which they are checked."""


class ToolGates:
    """`coevolve.validation.gates.Gates` that execute the calls of a candidate."""

    def __init__(
        self, simulator: Simulator, *, calls_per_turn: int, positive_reward: bool = False
    ) -> None:
        """Refuse references with more than ``calls_per_turn`` calls in a turn."""
        self._simulator = simulator
        self._calls_per_turn = calls_per_turn
        self._positive_reward = positive_reward

    async def examine(self, candidate: Candidate) -> Findings:
        """Check gate after gate until one refuses the candidate.

        Raises:
            SimulatorError: A simulator failed in every attempt, so nothing is known of the
            candidate.
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
    """A gate refused the candidate; only `ToolGates.examine` catches this."""

    def __init__(self, gate: Gate, found: str) -> None:
        super().__init__(found)
        self.refused = Refused(gate=gate, found=found[:MAX_FOUND_CHARS])


def _refuse(gate: Gate, found: str) -> None:
    if found:
        raise _RefusedError(gate, found)


def _passed(turn: TriedTurn) -> bool:
    return isinstance(turn.verdict, Passed)


def _skills(body: ToolTask) -> tuple[str, ...]:
    """Return the tools of each turn, in the order of their calls."""
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
    """Return what is wrong with a replay of the reference; empty if nothing is."""
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
    """Return the first turn that changes nothing and answers nothing; empty if there is none."""
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
    """Refuse a task whose verifier accepts a mutant of the reference."""
    for mutant, tried in await _play_all(tuple(mutants.idle(turns)), trials):
        _refuse("passes_without_acting", _accepted_mutant(mutant, turns, tried))
    for mutant, tried in await _play_all(tuple(mutants.truncated(turns)), trials):
        _refuse("passes_truncated", _accepted_mutant(mutant, turns, tried))
    for mutant, tried in await _play_all(tuple(mutants.reordered(turns)), trials):
        if not _equivalent(tried, played):
            _refuse("passes_reordered", _accepted_mutant(mutant, turns, tried))
    for slot, values in await _unguarded(turns, read, seen, trials):
        found = f"turn {slot.turn + 1}: {slot.tool}'s {slot.argument.name}={slot.argument.value!r}"
        others = ", ".join(map(repr, values))
        raise _RefusedError("passes_wrong_argument", f"{found} may as well be {others}")


async def _play_all(variants: Sequence[Turns], trials: Trials) -> list[tuple[Turns, Tried]]:
    tried = await asyncio.gather(*map(trials.play, variants))
    return list(zip(variants, tried, strict=True))


def _accepted_mutant(mutant: Turns, turns: Turns, tried: Tried) -> str:
    """Return a description of the mutant if the verifier accepts it; empty if it does not."""
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
    """Return the arguments for which the verifier accepts every wrong value, with these values."""

    async def all_pass(slot: Slot, values: Sequence[object]) -> bool:
        for value in values:
            if not passes(await trials.play(mutants.with_value(turns, read, slot, value))):
                return False
        return True

    every = mutants.slots(read)
    wrong = [(slot, mutants.wrong_values(slot, every, seen)) for slot in every]
    passed = await asyncio.gather(*(all_pass(slot, values) for slot, values in wrong))
    return [each for each, passes_all in zip(wrong, passed, strict=True) if passes_all]
