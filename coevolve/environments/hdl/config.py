"""The settings of runs on hardware designs (environment ``hdl``)."""

from typing import Annotated, Literal

import msgspec

from coevolve.environments.hdl.simulate.messages import SimulationLimits, SubmissionForm
from coevolve.environments.hdl.simulate.reward import RewardConfig
from protocols.numbers import (
    AtOnce,
    Count,
    Dollars,
    NonNegative,
    Processes,
    Share,
    Temperature,
    TokenBudget,
    Tokens,
    Tries,
    Weight,
)
from protocols.rollouts import Writer
from protocols.synthesizers import EndpointModel


class RejectionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule that selects testbenches for fine-tuning: LLM4Cov's coverage-guided rejection."""

    least_gain: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)] = 0.01
    """Minimum gain of a step in overall average coverage."""

    floor: Share = 0.0
    """Minimum overall average after a step. (LLM4Cov's stage 0: 0.5.)"""

    no_kind_falls: bool = True
    """Whether to reject a step after which any kind of coverage is lower than before."""

    keep: AtOnce = 1
    """Maximum number of accepted steps of a group; those with the largest gain are kept.
    (LLM4Cov: 1.)"""


class StageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage of training: who writes testbenches in which round, for how many groups."""

    writers: Annotated[tuple[Writer, ...], msgspec.Meta(min_length=1)] = ("policy",)
    """The writer of each round on a design. The last one writes in all further rounds too. Training
    uses only the steps of the last writer; the other writers only produce states. (LLM4Cov's
    stages: ``[teacher]``, ``[policy, teacher]``, ``[policy]``.) The writer ``grammar`` samples
    uniformly from the edits of the grammar of ``policy.model: tiny_hdl``."""

    groups: NonNegative = 0
    """Number of groups in the stage, over all writers. The last stage needs 0: it lasts to the
    run's end."""

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

    For a larger model, start a server and set an endpoint.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)]
    """A folder or a cached name, as for ``policy.model``; it needs a chat template."""

    temperature: Temperature = 0.7
    """Sampling temperature; 0 is greedy."""

    max_answer_tokens: Tokens = 2048
    """Maximum tokens of one answer."""

    max_tokens: Tokens = 16_384
    """Maximum tokens of prompt and answer together."""


TeacherModel = EndpointModel | LocalTeacher


class TeacherConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that writes where ``environment.stages`` has the writer ``teacher``."""

    model: TeacherModel | None = None
    """The teacher; null where no stage has one."""

    rules: bool = True
    """Whether the teacher's prompt has rules of syntax. The policy's prompt does not have them, and
    training leaves them out. (LLM4Cov's warm-up.) There are none for stimulus programs."""

    max_tokens: TokenBudget = 0
    """Maximum prompt and answer tokens of the teacher's calls in the whole run; 0 sets no limit.
    The run ends before a call that would exceed a limit."""

    max_cost_usd: Dollars = 0.0
    """Maximum cost of these calls, at the model's prices; 0 sets no limit."""


class HdlConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Testbenches for hardware designs, graded by coverage (environment ``hdl``)."""

    designs: str = ""
    """Folder with one subfolder per design; empty for the project's own ``designs/``."""

    form: SubmissionForm = "testbench"
    """What the policy writes."""

    rounds: Tries = 2
    """Steps on a design before it starts again from its beginning. Each step improves a testbench
    of the step before. The first is direct inference. (LLM4Cov's online runs: K = 2.)"""

    next_state: Literal["worst", "median", "best", "uniform"] = "worst"
    """Which testbench of a group the next step starts from, among those with coverage below 100 %:
    the one with the least coverage, the (lower) median, the most, or a random one. If there is no
    such testbench, the next step starts from a failed one."""

    stages: Annotated[tuple[StageConfig, ...], msgspec.Meta(min_length=1)] = (StageConfig(),)
    """Stages of training, in order; each continues from the weights of the one before."""

    teacher: TeacherConfig = TeacherConfig()

    vary_instance: bool = False
    """Whether instance names vary: one third of the designs each use ``dut``, ``uut`` and
    ``inst_<top>``, so that the policy does not memorize a name. If false, all use ``dut``."""

    evaluation_rounds: Tries = 4
    """Steps on each held-out design, the first one included. (LLM4Cov: 1 direct + 3 agentic.)"""

    evaluation_temperature: Temperature = 0.0
    """Sampling temperature of these steps; 0 is greedy. A policy that sees little more than
    coverage needs sampling; with greedy decoding it repeats edits that gained nothing."""

    memory: Literal["best", "last"] = "best"
    """Which testbench the next evaluation step starts from. ``best`` discards a worse one."""

    feedback_characters: Count = 3000
    """Maximum length of the part of a prompt that lists uncovered points, in characters."""

    reward: RewardConfig = RewardConfig()

    rarity_bonus: Weight = 0.0
    """Weight of a bonus that is added to a reward before rewards of a group are compared. The bonus
    is the mean, over the points that a testbench covers, of 1 / (rollouts of its group that cover
    the point)."""

    limits: SimulationLimits = SimulationLimits()
    concurrent: Processes = 2
    """Evaluations that one simulator worker runs at the same time."""
