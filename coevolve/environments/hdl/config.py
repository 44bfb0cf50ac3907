"""The settings of runs on hardware designs (environment ``hdl``)."""

from typing import Annotated, Literal

import msgspec

from coevolve.environments.hdl.simulate.messages import SimulationLimits, SubmissionForm
from protocols.numbers import Count, NonNegative, Share
from protocols.rollouts import Writer
from protocols.synthesizers import EndpointModel, Price


class RejectionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which testbenches fine-tuning learns from: LLM4Cov's coverage-guided rejection."""

    least_gain: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)] = 0.01
    """Overall average that a step has to gain."""

    floor: Share = 0.0
    """Overall average that it has to reach where the task has no goal. (LLM4Cov's stage 0: 0.5.)"""

    no_kind_falls: bool = True
    """Whether a step is rejected where any kind of coverage fell."""

    keep: Count = 1
    """Of a group's steps that are not rejected so many at most, those that gained the most.
    (LLM4Cov: 1.)"""


class StageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage of training: who writes testbenches, on whose states, and for how long."""

    writers: Annotated[tuple[Writer, ...], msgspec.Meta(min_length=1)] = ("policy",)
    """Who writes in each round on a design; the last one writes in all further rounds, and what it
    writes is what is learned from, the others only make states. (LLM4Cov's stages: ``[teacher]``,
    ``[policy, teacher]``, ``[policy]``.) ``grammar`` is that of ``policy.model: tiny_hdl``, all
    edits alike likely."""

    groups: NonNegative = 0
    """Groups of the stage, all writers' alike; 0, for the last stage alone: to the run's end."""

    rejection: RejectionConfig = RejectionConfig()


class LocalTeacher(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="local",
):
    """A small model that each rollout actor loads, with transformers, on the CPU.

    A larger one belongs behind a server of its own, as an endpoint.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)]
    """A folder or a cached name, as for ``policy.model``; it needs a chat template."""

    temperature: Annotated[float, msgspec.Meta(ge=0.0)] = 0.7
    """Sampling temperature; 0 is greedy."""

    max_answer_tokens: Count = 2048
    """Maximum tokens of one answer."""

    max_tokens: Count = 16_384
    """Maximum tokens of prompt and answer together."""


TeacherModel = EndpointModel | LocalTeacher


class TeacherConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that writes where ``environment.stages`` has the writer ``teacher``."""

    model: TeacherModel | None = None
    """The teacher; null where no stage has one."""

    rules: bool = True
    """Whether it is told rules of syntax that the policy is not, and that are not trained on.
    (LLM4Cov's warm-up.) Stimulus programs have none."""

    max_tokens: NonNegative = 0
    """Prompt and answer tokens of its calls, in the whole run; 0 is no limit. A run that would go
    beyond a limit ends."""

    max_cost_usd: Price = 0.0
    """Likewise, at the model's prices; 0 is no limit."""


class HdlConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Testbenches for hardware designs, graded by coverage (environment ``hdl``)."""

    designs: str = ""
    """Folder with one folder a design; empty for the project's own ``designs/``."""

    form: SubmissionForm = "testbench"
    """What the policy writes."""

    rounds: Count = 2
    """Steps on a design, each from a testbench of the one before, until it is begun anew. The first
    is direct inference. (LLM4Cov's online runs: K = 2.)"""

    next_state: Literal["worst", "median", "best", "uniform"] = "worst"
    """Which testbench of a group the next step starts from: of those with coverage below 100 % the
    one with the least, the (lower) median, the most, or any; where there is none, a failed one."""

    stages: Annotated[tuple[StageConfig, ...], msgspec.Meta(min_length=1)] = (StageConfig(),)
    """Stages of training, one after the other; each goes on from the weights of the one before."""

    teacher: TeacherConfig = TeacherConfig()

    variants: NonNegative = 4
    """Variants of a design with other secrets, at most, where the run makes tasks of its own."""

    vary_instance: bool = False
    """Whether designs' instances are to be called ``dut``, ``uut`` or ``inst_<top>``, a third of
    the designs each, rather than ``dut`` all: no name is then learnt by heart."""

    evaluation_rounds: Count = 4
    """Steps on each held-out design, the first one included. (LLM4Cov: 1 direct + 3 agentic.)"""

    evaluation_temperature: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """At which these are sampled; 0 is greedy. A policy that sees little more than coverage needs
    chance, or it tries what gained nothing again."""

    memory: Literal["best", "last"] = "best"
    """Which testbench the next of these starts from. ``best``: a worse one is thrown away."""

    feedback_characters: Count = 3000
    """Of what a prompt tells of uncovered points."""

    rarity_bonus: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0
    """Added to a reward before groups are compared: so much times the mean, over the points that a
    testbench covers, of 1 / (rollouts of its group that cover the point)."""

    limits: SimulationLimits = SimulationLimits()
    concurrent: Count = 2
    """Evaluations that one simulator worker runs at a time."""
