"""The gate of meaning, by a model that is asked: it picks the calls, and writes them blindly.

*Contrast*: the model sees the instructions, the tools, the world, and several options in random
order: the reference among decoys that were made from it and do something else. All are written in
the same form, so that the form does not tell. Any pick but the reference alone refutes the
candidate.

*Blind reconstruction*: the model sees no option, and writes the calls itself, once or more. They
agree with the reference if the candidate's verifier accepts them. If a call takes what only an
earlier answer shows (a token, a symbol), the model says that it is not finished; its calls are
executed, and it goes on with their answers. A reconstruction that fails does not refute.

A *control question* (`gates.control`) follows each right pick: a model that obeys what the texts
say to it answers this one wrong, and the candidate is refuted.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, Protocol

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.control import Control, control
from coevolve.environments.tools.gates.decoys import decoys
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.reading import read_call, tools_of, written
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.synthesis.answers import Pick, Rebuilt
from coevolve.environments.tools.synthesis.prompts import REBUILD_LOOKS
from coevolve.environments.tools.task import ToolTask
from protocols.errors import AnswerError, OverBudgetError
from protocols.evolution import Candidate, Reading
from protocols.rollouts import Action

AGREEMENT = 0.75
"""Minimum share of agreeing answers that confirms, if a run does not say otherwise."""


class AskedModel(Protocol):
    """A model that is asked about instructions.

    Its methods raise EndpointError if no answer comes now, AnswerError if the answers are unusable,
    and OverBudgetError.
    """

    name: str

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        """Return which options the instructions ask for."""
        ...

    async def rebuild(
        self, candidate: Candidate, body: ToolTask, number: int, seen: Sequence[Action]
    ) -> Rebuilt:
        """Return the calls that the instructions ask for.

        ``number`` counts the questions of all reconstructions from 0; ``seen`` are the calls of
        this one so far, with their answers.
        """
        ...


class Contrast(NamedTuple):
    """Options in random order."""

    options: Sequence[Turns]
    right: int
    """Number of the reference, from 1 on."""


Options = Callable[[Candidate, ToolTask, Trials], Awaitable[Contrast]]
"""Returns the reference of a task among decoys. Raises SimulatorError."""


class AskedReader:
    """A `gates.instructions.InstructionReader` that asks a model."""

    def __init__(
        self,
        model: AskedModel,
        *,
        rebuilds: int,
        agreement: float = AGREEMENT,
        options: Options | None = None,
    ) -> None:
        """Ask for one pick and ``rebuilds`` reconstructions.

        From a share of ``agreement`` of these answers on, the candidate is confirmed. ``options``
        makes the decoys, by default those of calls.
        """
        self._model = model
        self._rebuilds = rebuilds
        self._agreement = agreement
        self._options = options or among_calls

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return what the model finds; decoys and their order follow from the candidate's id.

        Raises SimulatorError, and EndpointError if the model gives no answer now.
        """
        contrast = await self._options(candidate, body, trials)
        try:
            pick = await self._model.pick(candidate, body, contrast.options)
            if set(pick.picks) != {contrast.right}:
                return self._refuted(_picked(pick, contrast))
            if obeyed := await self._obeys(candidate, body, contrast):
                return self._refuted(obeyed)
            rebuilt = await self._rebuilt(candidate, body, trials)
        except (AnswerError, OverBudgetError) as error:
            return Reading(reader=self._model.name, outcome="unread", found=str(error))
        agreement = (1 + rebuilt) / (1 + self._rebuilds)
        blind = f"{rebuilt} of {self._rebuilds} reconstructions reach its end"
        return Reading(
            reader=self._model.name,
            outcome="confirmed" if agreement >= self._agreement else "unread",
            found="; ".join((_picked(pick, contrast), *([blind] if self._rebuilds else []))),
            agreement=agreement,
        )

    def _refuted(self, found: str) -> Reading:
        return Reading(reader=self._model.name, outcome="refuted", found=found)

    async def _obeys(self, candidate: Candidate, body: ToolTask, contrast: Contrast) -> str:
        """Return how the model shows that it obeys the texts; empty if it does not."""
        asked = control(candidate, body, contrast.options, contrast.right)
        pick = await self._model.pick(asked.candidate, asked.body, asked.options)
        if not pick.picks or set(pick.picks) == {asked.right}:
            return ""
        return f"the reader obeys the texts: it {_picked(pick, asked)}"

    async def _rebuilt(self, candidate: Candidate, body: ToolTask, trials: Trials) -> int:
        """Return how many reconstructions the verifier accepts."""
        return sum(
            [await self._agrees(candidate, body, trials, each) for each in range(self._rebuilds)]
        )

    async def _agrees(
        self, candidate: Candidate, body: ToolTask, trials: Trials, attempt: int
    ) -> bool:
        """Return whether the calls that the model writes, perhaps in steps, reach the end."""
        seen: tuple[Action, ...] = ()
        for look in range(REBUILD_LOOKS):
            number = attempt * REBUILD_LOOKS + look
            rebuilt = await self._model.rebuild(candidate, body, number, seen)
            tried = await trials.play(rebuilt.calls_by_turn)
            if rebuilt.finished:
                return passes(tried)
            seen = tuple(_actions(rebuilt.calls_by_turn, tried))
        return False


async def among_calls(candidate: Candidate, body: ToolTask, trials: Trials) -> Contrast:
    """Return a reference of calls among its decoys."""
    tools = tools_of(body.classes)
    read = [[read_call(call, tools) for call in turn.reference] for turn in body.turns]
    rng = Random(candidate.candidate_id)  # noqa: S311
    return mixed(written(read), await decoys(body, read, trials, rng), rng)


def mixed(reference: Turns, others: Sequence[Turns], rng: Random) -> Contrast:
    """Return a reference among decoys, in random order."""
    options = [reference, *others]
    rng.shuffle(options)
    return Contrast(options, options.index(reference) + 1)


def _actions(turns: Turns, tried: Tried) -> Iterator[Action]:
    for number, (calls, turn) in enumerate(zip(turns, tried.turns, strict=True)):
        for call, observed in zip(calls, turn.observed, strict=True):
            yield Action(turn=number, text=call, result=observed.result, failed=observed.failed)


def _picked(pick: Pick, contrast: Contrast | Control) -> str:
    picked = ", ".join(map(str, sorted(set(pick.picks)))) or "none"
    return (
        f"picked {picked} of {len(contrast.options)} options, "
        f"right is {contrast.right}: {pick.reason}"
    )
