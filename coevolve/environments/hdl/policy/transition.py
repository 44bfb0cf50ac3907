"""One step of an agent on a design: from a state to a graded testbench.

The terms are LLM4Cov's (arXiv 2602.16953). A state is a design with a testbench and the simulator's
result. A policy that sees nothing else writes the next testbench, which makes the next state. The
policy trains on such steps, so each one is a record.
"""

from typing import Annotated, Literal

import msgspec

from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Covered,
    Outcome,
    SubmissionForm,
    TimedOut,
)
from protocols.rollouts import Rollout, Writer


class Blank(msgspec.Struct, frozen=True, kw_only=True, tag="blank"):
    """The state before the first testbench, where direct inference starts. Its coverage is 0."""


class Graded(msgspec.Struct, frozen=True, kw_only=True, tag="graded"):
    """A testbench and the simulator's result."""

    testbench: str
    """The text that ran; empty if the submission had none."""

    program: str = ""
    """The stimulus program that the testbench was printed from, for that form."""

    outcome: Outcome

    key: str
    """`coevolve.environments.hdl.simulate.messages.Evaluated.key`."""


DesignState = Blank | Graded
"""What a policy sees of earlier work on a design."""


class ChatText(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """The writer of a testbench."""

    writer: Writer = "policy"
    name: str
    """``policy``, ``grammar``, or the name of the teacher's model."""

    version: Annotated[int, msgspec.Meta(ge=0)]
    """The policy's version; 0 for other writers."""


class TransitionCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a step."""

    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=0)]
    simulator_calls: Annotated[int, msgspec.Meta(ge=0)]
    """Requested evaluations, including cached ones."""

    cpu_s: Annotated[float, msgspec.Meta(ge=0.0)]
    """CPU seconds of the evaluations; 0 for cached ones."""

    wall_s: Annotated[float, msgspec.Meta(ge=0.0)]
    """Seconds from the prompt to the outcome."""


class Transition(msgspec.Struct, frozen=True, kw_only=True, tag="transition"):
    """A step: the state that the writer saw, and the graded testbench that it wrote."""

    transition_id: str
    state_key: str
    """The same for all steps from one state; see `hdl.curation.states.state_key`."""

    design_id: str
    parent: str
    """The transition that made ``before``; empty if none did, as for a blank state."""

    before: DesignState
    after: Graded
    form: SubmissionForm

    prompt: tuple[ChatText, ...]
    """The prompt for training, without the additions for a teacher."""

    answer: str
    """The complete answer."""

    author: Author
    stage: Annotated[int, msgspec.Meta(ge=0)]
    """Index of the training stage."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    """Number of refinements before this step; 0 is direct inference."""

    seed: int
    """Seed of the answer's sampling, used for nothing else."""

    cost: TransitionCost

    def __post_init__(self) -> None:
        """Raise ValueError for a step from a blank state that has a parent."""
        if isinstance(self.before, Blank) and self.parent:
            raise ValueError(
                f"a transition from a blank state has no parent, got parent {self.parent!r}"
            )


_decoder = msgspec.msgpack.Decoder(Graded | None)


def read_outcome(outcome: msgspec.Raw) -> Graded | None:
    """Return the testbench in an outcome; None if the writer's answer had none."""
    return _decoder.decode(outcome)


def outcome_key(made: Graded | None) -> str:
    """Return the key under which the cache finds an outcome.

    Empty for a timeout, which may not happen again and so is not cached.
    """
    return "" if made is None or isinstance(made.outcome, TimedOut) else made.key


def graded_of(rollout: Rollout) -> Graded | None:
    """Return the testbench of a rollout; see `read_outcome`."""
    return read_outcome(rollout.outcome)


def coverage_of(state: DesignState) -> Coverage | None:
    """Return the state's coverage; None if no simulation ran to its end without a fault."""
    match state:
        case Graded(outcome=Covered(coverage=coverage, faults=())):
            return coverage
        case _:
            return None
