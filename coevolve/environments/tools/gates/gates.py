"""The gates that a candidate passes on its own, in the order of `gates.order`.

All but the last use facts: the candidate's text, and the results of simulators and their verifier.
Comparisons with other tasks follow (`tools.gates.similarity`). The last gate costs the most, so it
comes after them: a reader says what the instructions mean (`gates.instructions`).

``positive_reward`` turns on CoEvolve's "retain on positive reward" clause: a candidate whose
reference fails is admitted if some turn passed, and the gates that need a sound reference are
skipped. The default is off, because that reward says nothing about the candidate: a turn passes if
its state and answers equal the reference's, and a failing reference equals itself. So the clause
admits tasks that cannot be solved as their instructions ask, and the learner would imitate them.
"""

import json
from collections.abc import Callable
from typing import cast

from coevolve.environments.tools.cells import tools_by_turn
from coevolve.environments.tools.commands import Failed, Passed, Tried, TriedTurn, with_results
from coevolve.environments.tools.gates.asking import unasked
from coevolve.environments.tools.gates.discovery import Discovery
from coevolve.environments.tools.gates.effects import done, superfluous, told_answer, true_already
from coevolve.environments.tools.gates.executed import ExecutedGates
from coevolve.environments.tools.gates.form import MalformedError, read_reference, unknown_tool
from coevolve.environments.tools.gates.hygiene import unclean
from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.knowledge import first_unknown, invented
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.reading import tools_of
from coevolve.environments.tools.gates.refusal import RefusedError, refuse
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.gates.verifier import verified
from coevolve.environments.tools.gates.worlds import names
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask
from coevolve.validation.gates import Sound
from protocols.tasks import body_of


class ToolGates(ExecutedGates):
    """`coevolve.validation.gates.Gates` that execute the calls of a candidate."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        calls_per_turn: int,
        positive_reward: bool = False,
        reader: InstructionReader | None = None,
        held_out_cell: Callable[[ToolTask], str] = lambda body: "",
    ) -> None:
        """Refuse references with more than ``calls_per_turn`` calls in a turn.

        Without a ``reader``, nobody checks what the instructions mean. ``held_out_cell`` returns
        what only held-out tasks may combine, if the task does.
        """
        self._held_out_cell = held_out_cell
        super().__init__(simulator, self._sound, reader)
        self._calls_per_turn = calls_per_turn
        self._positive_reward = positive_reward

    async def _sound(self, body: ToolTask, trials: Trials) -> Sound:
        sound = await self._outcome(body, trials)
        return Sound(body=body_of(sound), skills=tools_by_turn(sound))

    async def _outcome(self, body: ToolTask, trials: Trials) -> ToolTask:
        try:
            read = read_reference(body, self._calls_per_turn)
        except MalformedError as error:
            raise RefusedError("malformed", str(error)) from error
        tools = tools_of(body.classes)
        refuse("unclean", unclean(body.turns, tools))
        refuse("unknown_tool", unknown_tool(body, read))
        if pair := self._held_out_cell(body):
            refuse("contaminated", f"{pair}: two requests that only held-out tasks make in a row")
        turns = body.references
        played = await trials.play(turns)
        fault = _replay_fault(turns, played)
        if fault and self._positive_reward and any(map(_passed, played.turns)):
            return with_results(body, played)
        refuse("replay_failed", fault)
        refuse("not_deterministic", _difference(played, await trials.play(turns)))
        refuse("no_effect", _idleness(turns, played))
        seen = names(body)
        sound, free = await verified(body, read, played, seen, trials)
        made = done(read, await trials.steps([call.text() for calls in read for call in calls]))
        refuse("true_already", await true_already(made, read, seen, trials))
        refuse("superfluous", superfluous(body, made))
        discovery = Discovery(trials, tools)
        refuse("nothing_missing", await unasked(body, read, played, discovery))
        unknown = await first_unknown(body, read, played, free, discovery)
        refuse("description_omits", unknown.text() if unknown else "")
        refuse("description_invents", await invented(body, read, played, discovery))
        refuse("description_answers", told_answer(body, made))
        return with_results(sound, played)


def _passed(turn: TriedTurn) -> bool:
    return isinstance(turn.verdict, Passed)


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


def _idleness(turns: Turns, played: Tried) -> str:
    """Return the first turn whose calls change nothing and answer nothing; empty if none is so.

    A task without any call is idle, too.
    """
    if not any(turns):
        return "there are no calls"
    before = played.initial
    for number, (calls, turn) in enumerate(zip(turns, played.turns, strict=True)):
        answers = [observed.result for observed in turn.observed]
        if calls and turn.state == before and all(map(_is_empty, answers)):
            shown = ", ".join(answers)
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
