"""What crosses between the synthesizer part and the model that synthesizes."""

import msgspec

from protocols.evolution import Candidate, Exploration, OnPattern, OnTask, SignalKind
from protocols.rollouts import Action


class Anything(msgspec.Struct, frozen=True, kw_only=True, tag="anything"):
    """No weakness is named: explore freely (the control without signals)."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout as a synthesizer may see it: without tokens, and never with the reference."""

    actions: tuple[Action, ...]
    succeeded: bool
    turns_passed: int
    ended: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A state of the training split to explore from."""

    origin: str
    """Where it comes from, for example the id of a training task or ``grammar:world:17``."""

    classes: tuple[str, ...]
    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    long_context: bool = False
    checks_directory: bool = False
    """As in `protocols.tasks.ToolTask`, for the tasks that come of it."""


class Precedent(msgspec.Struct, frozen=True, kw_only=True):
    """What came of earlier explorations that called the same tools in one go."""

    tools: tuple[str, ...]
    """In the order of the calls."""

    explored: int
    """How often they were called so."""

    described: int
    """How many turns of candidates call them so."""


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a synthesizer is to work on."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern | Anything
    instructions: tuple[str, ...]
    """What the user says in the flagged task, by turn; empty where no task is flagged."""

    attempts: tuple[Attempt, ...]
    """The evidence."""

    starts: tuple[Start, ...]
    """One for each round of exploring."""

    steps: int
    """Calls of one round, at most."""

    precedents: tuple[Precedent, ...] = ()
    """Of all signals that were settled before this one was recorded: what is covered already."""

    seed: int
    policy_version: int


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a brief."""

    explorations: tuple[Exploration, ...]
    candidates: tuple[Candidate, ...]
    simulator_calls: int
