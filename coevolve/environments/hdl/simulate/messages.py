"""Messages between the hardware simulator and its callers.

A policy submits a testbench in one of three forms. The simulator compiles it with the design, runs
it, and answers with its coverage or with what the policy did wrong. An infrastructure failure is a
`protocols.errors.SimulatorError` and never an outcome. Terms are those of CVDP and LLM4Cov (arXiv
2602.16953) where they have one; `hdl.simulate.summary` converts an evaluation into their JSON.
"""

import re
from typing import Annotated, Literal

import msgspec

from coevolve.environments.hdl.simulate.reward import MutantTrial, Noticed, RewardConfig
from coevolve.environments.sdk import SandboxLevel
from protocols.numbers import Megabytes, Seconds

Metric = Literal["line", "branch", "expr", "toggle", "fsm", "plan"]
"""Kinds of coverage. ``line``: a block was executed. ``branch``: a branch was taken. ``expr``: a
condition was decided by this combination of its terms. ``toggle``: a bit went 0 to 1, or 1 to 0.
``fsm``: a state of a state machine was entered, or an arc between two was taken. ``plan``: a bin of
a covergroup, or a ``cover`` statement, of a file that is bound to the design."""

CODE_METRICS: tuple[Metric, ...] = ("line", "branch", "expr", "toggle", "fsm")
"""The kinds that the RTL has by itself."""

METRICS: tuple[Metric, ...] = (*CODE_METRICS, "plan")
"""The kinds in the order of reports."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of RTL."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")]
    """File name without a folder. ``tb.sv`` is reserved for the testbench."""

    text: str


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the design, or its testbench, reads while it is simulated."""

    name: Annotated[
        str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][\w.-]{0,99}(/[A-Za-z0-9_][\w.-]{0,99}){0,9}\Z")
    ]
    """The name by which the design opens it; it may be in folders."""

    text: str


Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The port that resets a design."""

    port: Name
    active: Literal["low", "high"]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The simulator's part of a design: RTL, and the module under verification (DUT)."""

    name: str
    """Name in reports: that of the design's folder, if it has one."""

    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]
    """Source files in the order of compilation."""

    plan: tuple[SourceFile, ...] = ()
    """Files with modules that ``bind`` adds to the design, whose covergroups and ``cover``
    statements count; see `hdl.coverage.plan`."""

    data: tuple[DataFile, ...] = ()

    top: str
    """Name of the module under verification."""

    clock: str = ""
    """Input that a stimulus program toggles each cycle; empty for a combinational design."""

    reset: Reset | None = None
    """The port by which a stimulus program resets the design."""

    unreachable: tuple[str, ...] = ()
    """Points that do not count, as ``metric file:line:column instance name``."""

    points_sha256: str = ""
    """Hash of the frozen point set; empty to use the points of the RTL as it is."""

    keeps_secret: bool = False
    """Whether it has a value that only its specification states. The policy's testbenches may not
    read inside of such a design: they would read that value."""


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One port of the module under verification."""

    name: str
    direction: Literal["in", "out", "inout"]
    width: Annotated[int, msgspec.Meta(ge=1)]
    """Width in bits."""


class Testbench(msgspec.Struct, frozen=True, kw_only=True, tag="testbench"):
    """A whole SystemVerilog testbench."""

    __test__ = False

    text: str


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """Hunks that change a testbench; see `hdl.gate.patch`."""

    text: str
    base: str
    """The testbench that the hunks change."""


class Stimulus(msgspec.Struct, frozen=True, kw_only=True, tag="stimulus"):
    """A compact program that drives the ports; see `hdl.stimulus.language`."""

    program: str


SubmissionForm = Literal["testbench", "patch", "stimulus"]

Submission = Testbench | Patch | Stimulus
"""What a policy submits. A stimulus has the same coverage as the testbench that it prints as."""


class SimulationLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one evaluation, and what fails it.

    Exceeding one of the first four is the policy's fault.
    """

    cpu_s: Seconds = 4.0
    """CPU seconds of the simulation itself."""

    memory_mb: Megabytes = 1500
    """Maximum address space of the simulation."""

    slots: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 40_000
    """Maximum time slots: a simulation without ``$finish`` is cut off, which fails it; it keeps its
    coverage."""

    solver_steps: Annotated[int, msgspec.Meta(ge=1, lt=2**32)] = 10_000_000
    """Maximum solver steps of all constrained ``randomize()`` calls of a simulation: the solver's
    own count, which is the same on every machine, plus 1000 for each search. At the default this
    takes three CPU seconds and more."""

    compile_cpu_s: Seconds = 20.0
    """CPU seconds of each stage of compilation."""

    wall_s: Seconds = 60.0
    """Wall-clock seconds of a whole evaluation."""

    log_bytes: Annotated[int, msgspec.Meta(ge=1024, le=1 << 28)] = 65_536
    """Maximum output of the simulation, in bytes."""

    fail_on: tuple[str, ...] = ()
    """Regular expressions; the verdict is ``failed`` if one is found in a line of the output. For
    testbenches that print what they find instead of calling ``$error``."""

    def __post_init__(self) -> None:
        """Raise ValueError for a pattern that is no regular expression."""
        for pattern in self.fail_on:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"fail_on needs regular expressions, found {pattern!r}: {error}"
                ) from error


GateLevel = Literal["policy", "trusted"]
"""``policy``: the source gate refuses what could harm the machine or fake coverage. ``trusted``:
only the sandbox protects the machine, since a person gives the testbench; the run is graded if its
points are the design's own."""


class Evaluate(msgspec.Struct, frozen=True, kw_only=True, tag="evaluate"):
    """A request to grade one submission."""

    unit: Unit
    submission: Submission
    testbench_top: str = ""
    """Module to simulate; empty for the testbench's only module that no other instantiates."""

    instance: str = ""
    """Name of the DUT's instance in that module; empty for the only one."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    """Seed of ``$urandom`` and related functions."""

    limits: SimulationLimits = SimulationLimits()
    gate: GateLevel = "policy"
    trial: MutantTrial | None = None
    """The trial on mutants of the design after a simulation without a fault; None for none."""


class Point(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One thing that a testbench can cover. Equal points count once."""

    metric: Metric
    file: str
    line: int
    """Line of the file, from 1."""

    column: int
    instance: str
    """Path of the submodule inside the DUT; empty for the DUT itself."""

    name: str
    """What distinguishes the point from others on its line: the branch's arm, the combination of an
    expression's terms, the bit and direction of a toggle (``count[3]:0->1``), the state, or the arc
    between two states (``IDLE->RUN``)."""

    lines: str
    """Lines that are executed whenever the point is, for example ``12-14,17``; may be empty."""


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """Covered points and all points of one kind."""

    metric: Metric
    covered: int
    total: Annotated[int, msgspec.Meta(ge=1)]

    def __post_init__(self) -> None:
        """Raise ValueError for more covered points than points."""
        if not 0 <= self.covered <= self.total:
            raise ValueError(
                f"coverage needs 0 <= covered <= total, got {self.covered} of {self.total}"
            )


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which points of a design were covered, over the design's own, fixed set of points."""

    points_hash: str
    """Hash of the point set that the bits of ``hits`` refer to."""

    hits: bytes
    """One bit for each point, in the set's order, the first in the lowest bit of the first byte."""

    kinds: tuple[KindCount, ...]
    """Counts of the kinds that the design has, in the order of `METRICS`, without unreachable
    points."""

    @property
    def overall_average(self) -> float:
        """Unweighted mean of the kinds' shares, 0..1; thresholds refer to it."""
        if not self.kinds:
            return 0.0
        return sum(each.covered / each.total for each in self.kinds) / len(self.kinds)

    @property
    def overall_covered(self) -> float:
        """Share of all points, whatever their kind, 0..1."""
        total = sum(each.total for each in self.kinds)
        return sum(each.covered for each in self.kinds) / total if total else 0.0

    def share(self, metric: Metric) -> float | None:
        """Return the covered share of one kind; None if the design does not have it."""
        return next(
            (each.covered / each.total for each in self.kinds if each.metric == metric), None
        )

    def hit(self, index: int) -> bool:
        """Return whether the point at ``index`` of the set was covered."""
        return bool(self.hits[index // 8] >> index % 8 & 1)


Verdict = Literal["passed", "failed", "none"]
"""``failed``: a check of the testbench or an assertion of the design failed, or the run did not
end. ``passed``: the testbench has checks, and none failed. ``none``: it has no check, or did not
run."""


class Covered(msgspec.Struct, frozen=True, kw_only=True, tag="covered"):
    """The testbench compiled and ran."""

    coverage: Coverage
    ended: Literal["finish", "quiet", "slot_limit"]
    """``quiet``: no event was left. ``slot_limit``: cut off after ``limits.slots``."""

    slots: int
    time: int
    """Simulated time, in the simulation's smallest unit."""

    log: str
    """The last part of the testbench's output."""

    faults: tuple[str, ...] = ()
    """Why the verdict is ``failed``, in words."""

    checks: int = 0
    """Places of the testbench where it can fail; see `hdl.simulate.verdict`."""

    mutants: Noticed | None = None
    """The result of the trial on mutants; None where there was none."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the design, whatever the coverage."""
        if self.faults:
            return "failed"
        return "passed" if self.checks else "none"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A construct that a testbench may not contain, and its place."""

    line: int
    column: int
    message: str


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """The source gate refused the text, so nothing was compiled."""

    violations: Annotated[tuple[Violation, ...], msgspec.Meta(min_length=1)]


class PatchFailed(msgspec.Struct, frozen=True, kw_only=True, tag="patch_failed"):
    """Hunks did not apply, or the text is not a patch."""

    hunks: tuple[int, ...]
    """Numbers of the failed hunks, from 1; empty where the text is not a patch."""

    reason: str


class BadStimulus(msgspec.Struct, frozen=True, kw_only=True, tag="bad_stimulus"):
    """The program does not parse, or names a port that the design does not have."""

    line: int
    reason: str


class CompileFailed(msgspec.Struct, frozen=True, kw_only=True, tag="compile_failed"):
    """The testbench does not compile with the design."""

    message: str
    """Diagnostics as ``tb.sv:line:column: error: text``, without any path of the machine."""


class SimulationFailed(msgspec.Struct, frozen=True, kw_only=True, tag="simulation_failed"):
    """The simulation itself ended with an error."""

    message: str


class NotCovered(msgspec.Struct, frozen=True, kw_only=True, tag="not_covered"):
    """The simulation ran, but has no instance of the module under verification, or not just one."""

    message: str


class TimedOut(msgspec.Struct, frozen=True, kw_only=True, tag="timed_out"):
    """The evaluation exceeded a limit on time or memory."""

    stage: Literal["compile", "simulate"]
    message: str


Outcome = (
    Covered
    | Rejected
    | PatchFailed
    | BadStimulus
    | CompileFailed
    | SimulationFailed
    | NotCovered
    | TimedOut
)
"""All outcomes that a policy can cause; each is graded. Infrastructure failures are not
outcomes."""


def verdict_of(outcome: Outcome) -> Verdict:
    """Return the verdict; a simulation that ended with an error or not at all is ``failed``."""
    match outcome:
        case Covered():
            return outcome.verdict
        case SimulationFailed() | TimedOut(stage="simulate"):
            return "failed"
        case _:
            return "none"


COVERAGE_ALONE = RewardConfig()


def reward_of(outcome: Outcome, weights: RewardConfig = COVERAGE_ALONE) -> float:
    """Return 0 for a failed simulation or verdict, else 1..2; see `hdl.simulate.reward`.

    By default it is 1 + the overall average (LLM4Cov). A weight counts for coverage where the
    design has no plan, or no mutants that count.
    """
    if not isinstance(outcome, Covered) or outcome.faults:
        return 0.0
    coverage = outcome.coverage
    plan = coverage.share("plan")
    p = 0.0 if plan is None else weights.plan
    earned = weights.earned(coverage.overall_average, outcome.mutants)
    return 1.0 + (1 - p) * earned + p * (plan or 0.0)


class StageCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one stage of an evaluation."""

    stage: Literal["check", "verilate", "compile", "link", "simulate", "read", "mutants"]
    cpu_s: float
    wall_s: float


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated"):
    """A submission that was graded."""

    key: str
    """Hash of everything that the outcome depends on: toolchain, unit, text, seed and limits."""

    testbench: str
    """The text that ran, also for a patch or a stimulus; empty if there was none."""

    outcome: Outcome
    seed: int
    stages: tuple[StageCost, ...]
    toolchain: str
    sandbox: SandboxLevel | None
    """None where nothing was run because the result is cached."""

    cached: bool = False

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all stages."""
        return sum(stage.cpu_s for stage in self.stages)

    @property
    def reward(self) -> float:
        """The outcome's reward from coverage alone, 0 or 1..2."""
        return reward_of(self.outcome)
