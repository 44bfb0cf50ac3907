"""The tiny policy as its own synthesizer: it walks through a world and describes its calls.

Each round of a request walks through one of its start worlds (`filesystem.walk`), first with the
tools that the request points to (`filesystem.focus`). The policy writes instructions for each
errand
(`filesystem.describing`), and only acceptable ones are kept (`filesystem.belief`). If the
instruction for several calls together is not accepted, each call becomes a turn of its own. The
simulator then executes the turns, and the candidate ends before the first answer that differs from
that of the walk.

Rules do the reflecting and the walking, because the tiny model can only write instructions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.tools.filesystem.belief import believed, wording
from coevolve.environments.tools.filesystem.describing import Describer, Samples
from coevolve.environments.tools.filesystem.focus import focus_of, reflect
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.walk import (
    Chain,
    Errand,
    Slice,
    errands,
    says_something,
    walk,
)
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.brief import Start, tool_context
from coevolve.environments.tools.task import ToolTurn
from coevolve.journal.lookups import newest_of
from protocols.evolution import Candidate, Exploration
from protocols.interfaces import CallLog, Reader
from protocols.learning import PolicyVersion
from protocols.rollouts import Action
from protocols.synthesis import Brief, Synthesis
from protocols.synthesizers import PolicyModel
from protocols.tasks import body_of

MAX_TURNS = 3
"""Maximum number of turns of a candidate."""

SPARE_ERRANDS = 1
"""Errands beyond the wanted turns, for errands whose instruction is not accepted."""


@dataclass(frozen=True)
class _Round:
    """The result of one walk."""

    number: int
    start: Start
    turns: int
    """Number of turns that its candidate should have."""

    errands: Sequence[Errand]

    @property
    def described(self) -> list[Slice]:
        """Every slice, each followed by its parts if it has several calls."""
        return [
            part for errand in self.errands for each in errand for part in (each, *each.parts())
        ]


class PolicySynthesizer:
    """A `protocols.interfaces.Synthesizer`.

    With ``weights="start"`` the engine must serve the initial weights of the run, as a new engine
    does; with ``"newest"`` it gets the newest version before each request.
    """

    def __init__(
        self,
        model: PolicyModel,
        *,
        engine: VerifiedEngine,
        simulator: Simulator,
        renderer: TinyRenderer,
        reader: Reader,
    ) -> None:
        self._model = model
        self._engine = engine
        self._simulator = simulator
        self._renderer = renderer
        self._reader = reader
        self._version = 0
        self._loading = asyncio.Lock()

    @property
    def name(self) -> str:
        """``policy@`` and the policy version that writes the instructions."""
        return f"policy@{self._version}"

    async def check(self) -> None:
        """Serve the configured weights. Raises GeneratorError or DeliveryError."""
        await self._follow()

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Explore the start worlds of the request and make candidates from accepted instructions.

        Raises SimulatorError, GeneratorError, DeliveryError or OverBudgetError.
        """
        focus = focus_of(brief)
        rounds = [
            _explore(brief, number, start, focus)
            for number, start in enumerate(tool_context(brief).starts)
        ]
        name, samples = await self._samples(brief, rounds, calls)
        turns = [_turns(found, samples) for found in rounds]
        sound = await asyncio.gather(
            *(_sound(self._simulator, brief, *each) for each in zip(rounds, turns, strict=True))
        )
        return Synthesis(
            explorations=tuple(_exploration(brief, found, name, focus) for found in rounds),
            candidates=tuple(
                _candidate(brief, found, name, kept)
                for found, kept in zip(rounds, sound, strict=True)
                if kept and _shows(kept, focus)
            ),
            simulator_calls=sum(len(turn.reference) for each in turns for turn in each),
        )

    async def _samples(
        self, brief: Brief, rounds: Sequence[_Round], calls: CallLog
    ) -> tuple[str, Mapping[Slice, Samples]]:
        """Return the model's name, and its instructions for every slice of the rounds."""
        if await calls.recorded(0) is None:
            await self._follow()
        describer = Describer(
            self._engine.generator, self._renderer, self._model.temperature, self.name
        )
        slices = list(dict.fromkeys(each for found in rounds for each in found.described))
        name, texts = await describer.describe(brief, slices, calls)
        return name, dict(zip(slices, texts, strict=True))

    def cpu_s(self) -> float:
        return self._engine.generator.cpu_s()

    async def close(self) -> None:
        await self._engine.generator.close()

    async def _follow(self) -> None:
        """Serve the newest policy version, if the model uses the newest weights."""
        if self._model.weights == "start":
            return
        async with self._loading:
            version = await newest_of(self._reader, PolicyVersion)
            if version is not None and version.version > self._version:
                await self._engine.record(await self._engine.serve(version))
                self._version = version.version


def _explore(brief: Brief, number: int, start: Start, focus: Sequence[Chain]) -> _Round:
    rng = np.random.default_rng((brief.seed, number))
    turns = 1 if brief.kind == "unsolved" else int(rng.integers(1, MAX_TURNS + 1))
    planned = errands(focus, turns + SPARE_ERRANDS, rng)
    found = walk(start.task(), planned, rng, brief.steps)
    return _Round(number=number, start=start, turns=turns, errands=found)


def _exploration(brief: Brief, found: _Round, name: str, focus: Sequence[Chain]) -> Exploration:
    return Exploration(
        exploration_id=_exploration_id(brief, found),
        signal_id=brief.signal_id,
        synthesizer=name,
        reflection=reflect(brief, focus),
        start=found.start.origin,
        steps=tuple(
            Action(turn=number, text=call, result=result, failed=False)
            for number, errand in enumerate(found.errands)
            for each in errand
            for call, result in zip(each.calls, each.results, strict=True)
        ),
    )


def _candidate(brief: Brief, found: _Round, name: str, turns: tuple[ToolTurn, ...]) -> Candidate:
    return Candidate(
        candidate_id=f"{brief.signal_id}-candidate-{found.number}",
        signal_id=brief.signal_id,
        exploration_id=_exploration_id(brief, found),
        synthesizer=name,
        body=body_of(found.start.task(turns)),
        policy_version=brief.policy_version,
    )


async def _sound(
    simulator: Simulator, brief: Brief, found: _Round, turns: tuple[ToolTurn, ...]
) -> tuple[ToolTurn, ...]:
    """Return the turns before the first whose answers differ from those of the walk.

    Turns that neither change the world nor give a new answer are left out.
    """
    if not turns:
        return ()
    name, task = f"{brief.signal_id}-trial-{found.number}", found.start.task(turns)
    played = await simulator.trial(name, task, [turn.reference for turn in turns])
    sound: list[ToolTurn] = []
    known: set[str] = set()
    before = played.initial
    for turn, again in zip(turns, played.turns, strict=True):
        if turn.results != tuple(observed.result for observed in again.observed):
            break
        tells = any(says_something(result) and result not in known for result in turn.results)
        if again.state != before or tells:
            sound.append(turn)
        known.update(turn.results)
        before = again.state
    return tuple(sound)


def _turns(found: _Round, samples: Mapping[Slice, Samples]) -> tuple[ToolTurn, ...]:
    """Return the accepted turns of a walk; its first errand may exceed the wanted number."""
    turns = [_accepted(errand, samples) for errand in found.errands]
    due = max(found.turns, *map(len, turns[:1]), 0)
    return tuple(chain.from_iterable(turns))[: min(due, MAX_TURNS)]


def _accepted(errand: Errand, samples: Mapping[Slice, Samples]) -> list[ToolTurn]:
    """Return a turn for each slice, or else a turn for each of its calls that is accepted alone."""
    turns: list[ToolTurn] = []
    for each in errand:
        parts = each.parts()
        worded = frozenset(wording(sample.text) for part in parts for sample in samples[part])
        text = believed(each, samples[each], worded)
        if text is None:
            turns += _accepted(parts, samples)
        else:
            turns += [ToolTurn(instruction=text, reference=each.calls, results=each.results)]
    return turns


def _shows(turns: Sequence[ToolTurn], focus: Sequence[Chain]) -> bool:
    """Return whether the turns contain some errand of the focus in order; True without a focus."""
    called = [call.partition("(")[0] for turn in turns for call in turn.reference]
    in_order = (all(tool in rest for tool in each) for each in focus for rest in [iter(called)])
    return not focus or any(in_order)


def _exploration_id(brief: Brief, found: _Round) -> str:
    return f"{brief.signal_id}-exploration-{found.number}"
