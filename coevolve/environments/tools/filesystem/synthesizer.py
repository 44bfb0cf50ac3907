"""The tiny policy as its own synthesizer: explores a simulator and says what the calls are for.

Each round of a brief walks through one of its starts (`filesystem.explorer`), drawn to the tools
that the brief points to (`filesystem.focus`); the walk is cut into turns
(`filesystem.slicing`); the policy writes an instruction for each (`filesystem.describing`),
and only what can be believed is kept (`filesystem.belief`). Calls that are not believed together
become turns of their own. What is left is carried out once more in a fresh world and is a candidate
as far as it answers alike.

Reflecting and exploring follow rules, since the tiny model writes instructions and nothing else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.tools.filesystem.belief import believed, wording
from coevolve.environments.tools.filesystem.counted import CountedSimulator
from coevolve.environments.tools.filesystem.coverage import Coverage
from coevolve.environments.tools.filesystem.describing import Describer, Samples
from coevolve.environments.tools.filesystem.explorer import Chain, Walk
from coevolve.environments.tools.filesystem.focus import Planner, focus_of
from coevolve.environments.tools.filesystem.manual import Tool, manual
from coevolve.environments.tools.filesystem.reflection import reflect
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.filesystem.slicing import Slice, sliced, world_of
from coevolve.environments.tools.filesystem.steps import Step
from coevolve.environments.tools.filesystem.surroundings import says_something
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.brief import Start, tool_context
from coevolve.environments.tools.task import ToolTask, ToolTurn
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


@dataclass(frozen=True)
class _Round:
    """What one walk found."""

    number: int
    start: Start
    focus: tuple[Chain, ...]
    turns: int
    """Turns that its candidate is to have."""

    steps: Sequence[Step]
    slices: tuple[Slice, ...]

    @property
    def described(self) -> list[Slice]:
        """Every slice, and after it the parts of one that has several."""
        return [part for each in self.slices for part in (each, *_parts(each))]


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
        simulator = CountedSimulator(self._simulator)
        context = tool_context(brief)
        tools = manual(CLASS)
        focus = focus_of(brief, tools)
        rounds = await asyncio.gather(
            *(
                _explore(simulator, brief, number, focus, tools)
                for number in range(len(context.starts))
            )
        )
        if await calls.recorded(0) is None:
            await self._follow()
        generator = self._engine.generator
        describer = Describer(generator, self._renderer, self._model.temperature, self.name)
        slices = [each for found in rounds for each in found.described]
        name, said = await describer.describe(brief, slices, calls)
        samples = dict(zip(slices, said, strict=True))
        made = await asyncio.gather(
            *(_candidate(simulator, brief, found, samples, name) for found in rounds)
        )
        reflection = reflect(brief, focus)
        return Synthesis(
            explorations=tuple(
                Exploration(
                    exploration_id=_exploration_id(brief, found),
                    signal_id=brief.signal_id,
                    synthesizer=name,
                    reflection=reflection,
                    start=found.start.origin,
                    steps=tuple(map(_action, found.steps)),
                )
                for found in rounds
            ),
            candidates=tuple(candidate for candidate in made if candidate is not None),
            simulator_calls=simulator.calls,
        )

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


async def _explore(
    simulator: Simulator,
    brief: Brief,
    number: int,
    focus: Sequence[Chain],
    tools: Mapping[str, Tool],
) -> _Round:
    context = tool_context(brief)
    start = context.starts[number]
    rng = np.random.default_rng((brief.seed, number))
    turns = int(rng.integers(1, MAX_TURNS + 1))
    walk = Walk(simulator, f"{brief.signal_id}-walk-{number}", tools, rng, brief.steps)
    planner = Planner(tools, Coverage(context.precedents), rng)
    followed = planner.followed(focus)
    steps = await walk.run(world_of(start), planner.errands(followed, turns))
    slices = await sliced(simulator, f"{brief.signal_id}-cut-{number}", start, steps)
    return _Round(
        number=number, start=start, focus=followed, turns=turns, steps=steps, slices=slices
    )


async def _candidate(
    simulator: Simulator,
    brief: Brief,
    found: _Round,
    samples: Mapping[Slice, Samples],
    name: str,
) -> Candidate | None:
    turns = _turns(found, samples)
    if turns:
        turns = await _sound(simulator, f"{brief.signal_id}-trial-{found.number}", found, turns)
    if not turns or (found.focus and not _shows(turns, found.focus)):
        return None
    return Candidate(
        candidate_id=f"{brief.signal_id}-candidate-{found.number}",
        signal_id=brief.signal_id,
        exploration_id=_exploration_id(brief, found),
        synthesizer=name,
        body=body_of(_body(found, turns)),
        policy_version=brief.policy_version,
    )


async def _sound(
    simulator: Simulator, name: str, found: _Round, turns: tuple[ToolTurn, ...]
) -> tuple[ToolTurn, ...]:
    """Return the turns up to the first that answers otherwise than it did on the walk.

    Those that neither change nor tell anything new are left out.
    """
    played = await simulator.trial(name, _body(found, turns), [turn.reference for turn in turns])
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


def _body(found: _Round, turns: tuple[ToolTurn, ...]) -> ToolTask:
    return msgspec.structs.replace(world_of(found.start), turns=turns)


def _turns(found: _Round, samples: Mapping[Slice, Samples]) -> tuple[ToolTurn, ...]:
    """Return what is believed of a walk; its first errand may take more turns than were due."""
    turns: list[ToolTurn] = []
    due = found.turns
    for number, each in enumerate(found.slices):
        together = _together(each, samples)
        turns += _one_by_one(each, samples) if together is None else [_turn(each, together)]
        if number == 0:
            due = max(due, len(turns))
    return tuple(turns[: min(due, MAX_TURNS)])


def _together(each: Slice, samples: Mapping[Slice, Samples]) -> str | None:
    parts = _parts(each)
    worded = frozenset(wording(sample.text) for part in parts for sample in samples[part])
    return believed(each, samples[each], worded)


def _one_by_one(each: Slice, samples: Mapping[Slice, Samples]) -> list[ToolTurn]:
    alone = [(part, believed(part, samples[part], frozenset())) for part in _parts(each)]
    return [_turn(part, text) for part, text in alone if text is not None]


def _turn(each: Slice, instruction: str) -> ToolTurn:
    return ToolTurn(instruction=instruction, reference=each.calls, results=each.results)


def _parts(each: Slice) -> tuple[Slice, ...]:
    return each.parts() if len(each.calls) > 1 else ()


def _shows(turns: Sequence[ToolTurn], focus: Sequence[Chain]) -> bool:
    """Whether some errand of the focus is in the turns, in order."""
    called = [call.partition("(")[0] for turn in turns for call in turn.reference]
    return any(_in_order(chain, called) for chain in focus)


def _in_order(chain: Chain, called: Sequence[str]) -> bool:
    rest = iter(called)
    return all(tool in rest for tool in chain)


def _exploration_id(brief: Brief, found: _Round) -> str:
    return f"{brief.signal_id}-exploration-{found.number}"


def _action(step: Step) -> Action:
    observed = step.observed
    return Action(turn=step.errand, text=step.text, result=observed.result, failed=observed.failed)
