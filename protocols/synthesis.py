"""What crosses between the synthesizer part and the model that synthesizes."""

import msgspec

from protocols.evolution import Candidate, Exploration, OnPattern, OnTask, SignalKind
from protocols.rollouts import Action
from protocols.tasks import NOTHING


class Anything(msgspec.Struct, frozen=True, kw_only=True, tag="anything"):
    """No weakness is named: explore freely (the control without signals)."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout as a synthesizer may see it: without tokens, and never with the reference."""

    actions: tuple[Action, ...]
    succeeded: bool
    turns_passed: int
    ended: str


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What a synthesizer is to work on."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern | Anything
    attempts: tuple[Attempt, ...]
    """The evidence."""

    steps: int
    """Calls of one round of exploring, at most."""

    context: msgspec.Raw = NOTHING
    """What else the environment tells, as msgpack of its own type."""

    seed: int
    policy_version: int


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a brief."""

    explorations: tuple[Exploration, ...]
    candidates: tuple[Candidate, ...]
    simulator_calls: int
