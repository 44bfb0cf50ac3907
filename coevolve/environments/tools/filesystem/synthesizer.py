"""The tiny policy as its own synthesizer: walks through a world and says what the calls are for.

Each round of a brief walks through one of its starts (`filesystem.walk`), first with the tools that
the brief points to (`filesystem.focus`). The policy writes an instruction for each errand
(`filesystem.describing`), and only what can be believed is kept (`filesystem.belief`). Calls that
are not believed together become turns of their own. What is left is carried out in the simulator
and is a candidate as far as that answers as the walk did.

Reflecting and walking follow rules, since the tiny model writes instructions and nothing else.
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
from coevolve.journal.codec import decode_as, topic_of
from protocols.evolution import Candidate, Exploration
from protocols.interfaces import CallLog, Reader
from protocols.learning import PolicyVersion
from protocols.rollouts import Action
from protocols.synthesis import Brief, Synthesis
from protocols.synthesizers import PolicyModel
from protocols.tasks import body_of

MAX_TURNS = 3
"""Of a candidate."""

SPARE_ERRANDS = 1
"""Beyond the turns that are due: for errands that are not believed."""


@dataclass(frozen=True)
class _Round:
    """What one walk found."""

    number: int
    start: Start
    turns: int
    """Turns that its candidate is to have."""

    errands: Sequence[Errand]

    @property
    def described(self) -> list[Slice]:
        """Every slice, and after it the parts of one that has several."""
        return [
            part for errand in self.errands for each in errand for part in (each, *each.parts())
        ]


class PolicySynthesizer:
    """A `protocols.interfaces.Synthesizer`.

    With ``weights="start"`` the engine has to serve the weights that the run began with, as a fresh
    one does; with ``"newest"`` it is given the newest version before each brief.
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
        """``policy@`` and the version that describes."""
        return f"policy@{self._version}"

    async def check(self) -> None:
        """Serve the weights that are asked for. Raises GeneratorError or DeliveryError."""
        await self._follow()

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Explore the brief's starts and make candidates of what can be described.

        Raises SimulatorError, GeneratorError, DeliveryError or OverBudgetError.
        """
        focus = focus_of(brief)
        rounds = [
            _explore(brief, number, start, focus)
            for number, start in enumerate(tool_context(brief).starts)
        ]
        name, samples = await self._described(brief, rounds, calls)
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

    async def _described(
        self, brief: Brief, rounds: Sequence[_Round], calls: CallLog
    ) -> tuple[str, Mapping[Slice, Samples]]:
        """Return the model's name, and what it wrote of everything that the rounds found."""
        if await calls.recorded(0) is None:
            await self._follow()
        describer = Describer(
            self._engine.generator, self._renderer, self._model.temperature, self.name
        )
        slices = list(dict.fromkeys(each for found in rounds for each in found.described))
        name, said = await describer.describe(brief, slices, calls)
        return name, dict(zip(slices, said, strict=True))

    def cpu_s(self) -> float:
        """Return the CPU seconds of the generator so far."""
        return self._engine.generator.cpu_s()

    async def close(self) -> None:
        """End the generator."""
        await self._engine.generator.close()

    async def _follow(self) -> None:
        """Serve the newest policy version, where that is asked for."""
        if self._model.weights == "start":
            return
        async with self._loading:
            record = await self._reader.last(topic_of(PolicyVersion))
            version = None if record is None else decode_as(record, PolicyVersion)
            if version is not None and version.version > self._version:
                await self._engine.record(await self._engine.serve(version))
                self._version = version.version


def _explore(brief: Brief, number: int, start: Start, focus: Sequence[Chain]) -> _Round:
    rng = np.random.default_rng((brief.seed, number))
    turns = int(rng.integers(1, MAX_TURNS + 1))
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
    """Return the turns up to the first that answers otherwise than it did on the walk.

    Those that neither change nor tell anything new are left out.
    """
    if not turns:
        return ()
    name, task = f"{brief.signal_id}-trial-{found.number}", found.start.task(turns)
    played = await simulator.trial(name, task, [turn.reference for turn in turns])
    sound: list[ToolTurn] = []
    told: set[str] = set()
    before = played.initial
    for turn, again in zip(turns, played.turns, strict=True):
        if turn.results != tuple(observed.result for observed in again.observed):
            break
        tells = any(says_something(result) and result not in told for result in turn.results)
        if again.state != before or tells:
            sound.append(turn)
        told.update(turn.results)
        before = again.state
    return tuple(sound)


def _turns(found: _Round, samples: Mapping[Slice, Samples]) -> tuple[ToolTurn, ...]:
    """Return what is believed of a walk; its first errand may take more turns than were due."""
    turns = [_believed(errand, samples) for errand in found.errands]
    due = max(found.turns, *map(len, turns[:1]), 0)
    return tuple(chain.from_iterable(turns))[: min(due, MAX_TURNS)]


def _believed(errand: Errand, samples: Mapping[Slice, Samples]) -> list[ToolTurn]:
    """Return a turn for each slice, or else for those of its calls that are believed alone."""
    turns: list[ToolTurn] = []
    for each in errand:
        parts = each.parts()
        worded = frozenset(wording(sample.text) for part in parts for sample in samples[part])
        text = believed(each, samples[each], worded)
        if text is None:
            turns += _believed(parts, samples)
        else:
            turns += [ToolTurn(instruction=text, reference=each.calls, results=each.results)]
    return turns


def _shows(turns: Sequence[ToolTurn], focus: Sequence[Chain]) -> bool:
    """Whether some errand of the focus, if there is any, is in the turns, in order."""
    called = [call.partition("(")[0] for turn in turns for call in turn.reference]
    in_order = (all(tool in rest for tool in each) for each in focus for rest in [iter(called)])
    return not focus or any(in_order)


def _exploration_id(brief: Brief, found: _Round) -> str:
    return f"{brief.signal_id}-exploration-{found.number}"
