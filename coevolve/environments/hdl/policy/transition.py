"""One step of an agent on a design: from a state to a graded testbench.

The words are LLM4Cov's (arXiv 2602.16953): a state is a design with a testbench and what the
simulator said of it; a policy that sees nothing else writes the next testbench; that makes the next
state. What a policy is trained on is such a step, so each is a record of its own.
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
    """Nothing was written yet: where direct inference starts. Its coverage is 0."""


class Graded(msgspec.Struct, frozen=True, kw_only=True, tag="graded"):
    """A testbench, and what the simulator said of it."""

    testbench: str
    """The text that ran; empty where a submission came to none."""

    program: str = ""
    """The stimulus program that it was printed from, where that is the form."""

    outcome: Outcome

    key: str
    """`coevolve.environments.hdl.simulate.messages.Evaluated.key`."""


DesignState = Blank | Graded
"""What a policy sees of its work on a design, beside the design itself."""


class ChatText(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a testbench."""

    writer: Writer = "policy"
    name: str
    """``policy``, ``grammar``, or the model that teaches."""

    version: Annotated[int, msgspec.Meta(ge=0)]
    """The policy's version; 0 for a model that does not learn here."""


class TransitionCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a step took."""

    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=0)]
    simulator_calls: Annotated[int, msgspec.Meta(ge=0)]
    """Evaluations that were asked for, cached ones included."""

    cpu_s: Annotated[float, msgspec.Meta(ge=0.0)]
    """Of the evaluations; 0 for cached ones."""

    wall_s: Annotated[float, msgspec.Meta(ge=0.0)]
    """From the prompt to the outcome."""


class Transition(msgspec.Struct, frozen=True, kw_only=True, tag="transition"):
    """A policy saw a state and wrote a testbench, which was graded."""

    transition_id: str
    state_key: str
    """The same for all steps from one state; see `hdl.curation.states.state_key`."""

    design_id: str
    parent: str
    """The transition that made ``before``; empty where none did, as for a blank state."""

    before: DesignState
    after: Graded
    form: SubmissionForm

    prompt: tuple[ChatText, ...]
    """As it is trained on: what only a teacher was told is left out."""

    answer: str
    """All that the policy wrote."""

    author: Author
    stage: Annotated[int, msgspec.Meta(ge=0)]
    """Of training, counted from 0."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    """Refinements before this step; 0 is direct inference."""

    seed: int
    """Seeds the sampling of the answer and nothing else."""

    cost: TransitionCost

    goal: tuple[int, ...] = ()
    """Points that were to be covered; see `hdl.policy.task.DesignTask.goal`."""

    def __post_init__(self) -> None:
        """Refuse a step from nowhere that has a parent."""
        if isinstance(self.before, Blank) and self.parent:
            raise ValueError(
                f"a transition from a blank state has no parent, got parent {self.parent!r}"
            )


_decoder = msgspec.msgpack.Decoder(Graded | None)


def read_outcome(outcome: msgspec.Raw) -> Graded | None:
    """Return the testbench behind an outcome; None where the writer's words came to none."""
    return _decoder.decode(outcome)


def outcome_key(made: Graded | None) -> str:
    """Return what an outcome is found again under; empty if it met a limit, which it may not again.

    So a submission that is on record need not be simulated again.
    """
    return "" if made is None or isinstance(made.outcome, TimedOut) else made.key


def graded_of(rollout: Rollout) -> Graded | None:
    """Return the testbench that a rollout wrote; as `read_outcome`."""
    return read_outcome(rollout.outcome)


def coverage_of(state: DesignState) -> Coverage | None:
    """Return the state's coverage; None where nothing was simulated to its end."""
    match state:
        case Graded(outcome=Covered(coverage=coverage)):
            return coverage
        case _:
            return None
