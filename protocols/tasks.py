"""What an agent is asked to do."""

from typing import Annotated, Literal

import msgspec

from protocols.hardware import SubmissionForm
from protocols.transitions import DesignState

Split = Literal["train", "held_out"]
"""Held-out tasks are for the evaluator alone: never trained on, never in a synthesizer's prompt."""

BfclCategory = Literal["base", "miss_func", "miss_param", "long_context"]
"""BFCL's variants of the same 200 multi-turn conversations; see `bfcl.catalogue`."""


class ToolTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction of the user and the validated way to carry it out."""

    instruction: str
    """What the user says. Empty where a turn only reveals tools."""

    reference: tuple[str, ...]
    """Calls that solve the turn, as Python call expressions with literal arguments, in order.

    Empty where the right thing is to make no call (a tool or a parameter is missing).
    """

    results: tuple[str, ...] = ()
    """What the simulator answered to each call of ``reference``, where it was recorded."""

    revealed: tuple[str, ...] = ()
    """Tools that become available with this turn."""

    def __post_init__(self) -> None:
        """Refuse results that do not line up with the calls."""
        if self.results and len(self.results) != len(self.reference):
            raise ValueError(
                "a turn needs one result per reference call or none at all, "
                f"got {len(self.results)} results for {len(self.reference)} calls"
            )


class ToolTask(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """A conversation of one or more turns with stateful tools."""

    classes: tuple[str, ...]
    """Simulator classes whose methods are the tools, for example ``GorillaFileSystem``."""

    world: str
    """Initial state: JSON object from class name to that class's scenario."""

    turns: Annotated[tuple[ToolTurn, ...], msgspec.Meta(min_length=1)]

    withheld: tuple[str, ...] = ()
    """Tools that are not available until some turn reveals them."""

    long_context: bool = False
    """Whether the simulators extend their state with long filler, as BFCL's category does."""

    extra: str = ""
    """Further fields that a task file has of the task: a JSON object; empty for none."""

    checks_directory: bool = False
    """Whether a turn also has to end in the reference's working directory.

    BFCL's own checker does not look at it; the quickstart's tasks do.
    """


TaskBody = ToolTask
"""What an agent does with tools; grading by coverage has a task of its own, `CoverageTask`."""


class Seeded(msgspec.Struct, frozen=True, kw_only=True, tag="seeded"):
    """The task came with the run: a benchmark item or a draw of the task grammar."""

    source: str
    """Where from, for example ``grammar:uniform`` or ``bfcl:multi_turn_base_17``."""


class Synthesized(msgspec.Struct, frozen=True, kw_only=True, tag="synthesized"):
    """The loop made the task from a signal."""

    candidate_id: str
    signal_id: str


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """A task that may be attempted: complete, with a reference that was executed."""

    task_id: str
    split: Split
    origin: Seeded | Synthesized

    skills: tuple[str, ...]
    """What the task exercises, one entry per turn where the source knows it."""

    body: TaskBody


class CoverageTask(msgspec.Struct, frozen=True, kw_only=True, tag="coverage_task"):
    """Write a better testbench for a design than the one there is.

    LLM4Cov's memoryless transition (arXiv 2602.16953): what is written depends on nothing but this.
    """

    task_id: str
    split: Split

    design: str
    """Folder in ``designs/``, or a variant that the run made."""

    form: SubmissionForm
    instance: str
    """Name that the testbench gives the design's instance."""

    state: DesignState
    """What to improve on."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    """Steps before this one; 0 is direct inference."""

    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    """Overall average from which the step counts as a success."""

    parent: str = ""
    """The rollout that made ``state``, as ``group_id/index``; empty where none did."""

    root: str = ""
    """The task that work on the design began with; empty where it is this one."""

    goal: tuple[int, ...] = ()
    """Points of the design, by index, all of which have to be covered for success, whatever the
    threshold; empty where coverage as a whole is the task."""

    origin: Seeded | Synthesized = Seeded(source="designs")
    """Of the task that work on the design began with."""

    @property
    def beginning(self) -> str:
        """Return the task that work on the design began with."""
        return self.root or self.task_id


AnyTask = Task | CoverageTask
