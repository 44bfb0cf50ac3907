"""Messages between the synthesizer part and its model."""

import msgspec

from protocols.evolution import Anything, Candidate, Exploration, OnPattern, OnTask, SignalKind
from protocols.rollouts import Action
from protocols.tasks import NOTHING


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout as a synthesizer may see it, without tokens and always without the reference."""

    actions: tuple[Action, ...]
    succeeded: bool
    turns_passed: int
    ended: str


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A synthesizer's input for one signal."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern | Anything
    attempts: tuple[Attempt, ...]
    """The evidence."""

    steps: int
    """Maximum calls of one exploration."""

    context: msgspec.Raw = NOTHING
    """Further input from the environment, as msgpack of its own type."""

    seed: int
    policy_version: int


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a brief."""

    explorations: tuple[Exploration, ...]
    candidates: tuple[Candidate, ...]
    simulator_calls: int
