"""The tiny policy in its second role as a reader: would it describe the calls by this instruction?

It reads each turn by itself, as the synthesizer writes it (`filesystem.abstraction`): the calls and
their answers are given, and the instruction's words get a probability. A right wording is one of a
few that the policy knows for such calls, so the words around the names are probable; names are
checked by the other gates. The agreement of a candidate is that probability, in its least probable
turn. From a limit on it confirms; below, the policy cannot tell a wrong instruction from one in
words that it does not know, so it refutes nothing.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coevolve.environments.tools.filesystem.abstraction import trajectory
from coevolve.environments.tools.filesystem.belief import Description
from coevolve.environments.tools.filesystem.describing import description
from coevolve.environments.tools.filesystem.forward import TinyForward
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import DONE
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.synthesis.accounts import FindAccount
from coevolve.environments.tools.synthesis.reader import FIRST_ORDINAL
from coevolve.environments.tools.synthesis.structured_call import ordinal_of
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.errors import OverBudgetError
from protocols.evolution import Candidate, ModelCall, Reading

AGREEMENT = 0.01
"""Minimum probability of a turn's wording that confirms, if a run does not say otherwise.

Of 200 tasks of the grammar the least probable has 0.1; of 540 tasks spoilt on purpose that pass the
other gates, all but six are below 0.001.
"""

Lesson = tuple[tuple[int, ...], tuple[int, ...]]
"""The tokens of a prompt, and those of the instruction after it."""


class PolicyReader:
    """A `gates.instructions.InstructionReader` with the weights that a run begins with."""

    name = "policy@0"

    def __init__(
        self, folder: Path, *, account_of: FindAccount, agreement: float = AGREEMENT
    ) -> None:
        """Read with the model of ``folder``; ``account_of`` finds where calls are recorded."""
        self._renderer = TinyRenderer.load(folder)
        self._model = TinyForward(folder)
        self._account_of = account_of
        self._agreement = agreement

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return whether every turn's wording is probable; the calls are not executed again."""
        del trials
        lessons = [self._lesson(turn) for turn in body.turns]
        longest = max(len(prompt) + len(answer) for prompt, answer in lessons)
        if longest > self._model.most_tokens:
            return self._unread(
                f"a turn has {longest} tokens, and the policy reads {self._model.most_tokens}"
            )
        try:
            found = await self._described(candidate, lessons)
        except OverBudgetError as error:
            return self._unread(str(error))
        worst = min(found, key=lambda each: each.wording)
        agreement = math.exp(worst.wording)
        return Reading(
            reader=self.name,
            outcome="confirmed" if agreement >= self._agreement else "unread",
            found=f"the wording {worst.text!r} has probability {agreement:.2g} for its calls, and "
            f"confirms from {self._agreement:g} on",
            agreement=agreement,
        )

    def _unread(self, reason: str) -> Reading:
        return Reading(reader=self.name, outcome="unread", found=reason)

    def _lesson(self, turn: ToolTurn) -> Lesson:
        prompt = trajectory(self._renderer, turn.reference, turn.results)
        return prompt, (*self._renderer.encode(turn.instruction), DONE)

    async def _described(
        self, candidate: Candidate, lessons: Sequence[Lesson]
    ) -> list[Description]:
        """Return the probabilities of the instructions, recorded as one call of the policy."""
        account = await self._account_of(candidate)
        async with account.calls as calls:
            ordinal = ordinal_of(candidate.candidate_id, FIRST_ORDINAL)
            call = await calls.recorded(ordinal)
            if call is None:
                prompt_tokens = sum(len(prompt) for prompt, _ in lessons)
                answer_tokens = sum(len(answer) for _, answer in lessons)
                await calls.allow(prompt_tokens, answer_tokens, 0.0)
                started = time.monotonic()
                found = await asyncio.to_thread(self._score, lessons)
                call = ModelCall(
                    signal_id=candidate.signal_id,
                    ordinal=ordinal,
                    purpose="read",
                    kind=account.kind,
                    model=self.name,
                    prompt=msgspec.json.encode(
                        [self._renderer.decode(prompt) for prompt, _ in lessons]
                    ).decode(),
                    answer=msgspec.json.encode(found).decode(),
                    prompt_tokens=prompt_tokens,
                    answer_tokens=answer_tokens,
                    cost_usd=0.0,
                    wall_s=time.monotonic() - started,
                )
                await calls.note(call)
        return msgspec.json.decode(call.answer, type=list[Description])

    def _score(self, lessons: Sequence[Lesson]) -> list[Description]:
        return [
            description(self._renderer, answer, self._model.logprobs(prompt, answer))
            for prompt, answer in lessons
        ]
