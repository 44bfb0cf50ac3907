"""What crosses between whoever grades a testbench and the hardware simulator.

A policy submits a testbench in one of three forms; the simulator compiles it with the design, runs
it, and answers with coverage, or says what the policy did wrong. What a machine does wrong is a
`protocols.errors.SimulatorError` and never an outcome. The words are CVDP's and LLM4Cov's (arXiv
2602.16953) where they have one; their own JSON is made of this by `hdl.simulate.summary`.
"""

from typing import Annotated, Literal

import msgspec

Metric = Literal["line", "branch", "expr", "toggle", "fsm"]
"""Kinds of coverage. ``line``: a block was executed. ``branch``: a branch was taken. ``expr``: a
condition was decided by this combination of its terms. ``toggle``: a bit went 0 to 1, or 1 to 0.
``fsm``: a state of a state machine was entered, or an arc between two was taken."""

METRICS: tuple[Metric, ...] = ("line", "branch", "expr", "toggle", "fsm")
"""In the order in which they are reported."""

SandboxLevel = Literal["namespaces", "seccomp", "limits"]
"""How foreign code is kept in, strongest first; each has what the next ones have.

``namespaces``: no network, no files but the toolchain and its own folder. ``seccomp``: no sockets
and no system calls that reach further, but the machine's readable files. ``limits``: only bounds
on time, memory, processes and file sizes."""


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of RTL."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")]
    """Without a folder; ``tb.sv`` is the testbench's."""

    text: str


Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]


class Reset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The port that resets a design."""

    port: Name
    active: Literal["low", "high"]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A design as the simulator needs it: RTL, and which of its modules is verified (the DUT)."""

    name: str
    """How reports call it; the design's folder, where it has one."""

    files: Annotated[tuple[SourceFile, ...], msgspec.Meta(min_length=1)]
    """In the order of compilation."""

    top: str
    """Name of the module under verification."""

    clock: str = ""
    """Input that a stimulus program toggles each cycle; empty for a combinational design."""

    reset: Reset | None = None
    """What a stimulus program resets it by."""

    unreachable: tuple[str, ...] = ()
    """Points that do not count, as ``metric file:line:column instance name``."""

    points_sha256: str = ""
    """The frozen point set; empty where there is none and that of the RTL as it is counts."""


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One port of the module under verification."""

    name: str
    direction: Literal["in", "out", "inout"]
    width: Annotated[int, msgspec.Meta(ge=1)]
    """Bits."""


class Testbench(msgspec.Struct, frozen=True, kw_only=True, tag="testbench"):
    """A whole SystemVerilog testbench."""

    __test__ = False

    text: str


class Patch(msgspec.Struct, frozen=True, kw_only=True, tag="patch"):
    """Hunks that change a testbench; see `hdl.gate.patch`."""

    text: str
    base: str
    """The testbench that the hunks apply to."""


class Stimulus(msgspec.Struct, frozen=True, kw_only=True, tag="stimulus"):
    """A compact program that drives the ports; see `hdl.stimulus.language`."""

    program: str


SubmissionForm = Literal["testbench", "patch", "stimulus"]

Submission = Testbench | Patch | Stimulus
"""What a policy hands in. A stimulus has the same coverage as the testbench that it prints as."""


class SimulationLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one evaluation may take. The first four are a policy's fault where they are met."""

    cpu_s: Annotated[float, msgspec.Meta(gt=0.0)] = 4.0
    """CPU seconds of the simulation itself."""

    memory_mb: Annotated[int, msgspec.Meta(ge=64)] = 1500
    """Address space of the simulation."""

    slots: Annotated[int, msgspec.Meta(ge=1)] = 40_000
    """Time slots after which a simulation without ``$finish`` is cut off, its coverage kept."""

    solver_steps: Annotated[int, msgspec.Meta(ge=1, lt=2**32)] = 10_000_000
    """Of the solver, in all constrained ``randomize()`` of a simulation: what it counts itself, the
    same on every machine, and 1000 for each search. Three CPU seconds and more."""

    compile_cpu_s: Annotated[float, msgspec.Meta(gt=0.0)] = 20.0
    """CPU seconds of each stage of compilation."""

    wall_s: Annotated[float, msgspec.Meta(gt=0.0)] = 60.0
    """Wall clock of a whole evaluation."""

    log_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 65_536
    """Output of the simulation that is kept at all."""


class Evaluate(msgspec.Struct, frozen=True, kw_only=True, tag="evaluate"):
    """Grade one submission."""

    unit: Unit
    submission: Submission
    testbench_top: str = ""
    """Module to simulate; empty for the only module of the testbench that none instantiates."""

    instance: str = ""
    """Name of the DUT's instance in that module; empty for the only one."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    """Seeds ``$urandom`` and its kin."""

    limits: SimulationLimits = SimulationLimits()


class Point(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One thing that a testbench can cover. Equal points are one point."""

    metric: Metric
    file: str
    line: int
    """Line of the file, from 1."""

    column: int
    instance: str
    """Path of the submodule inside the DUT; empty for the DUT itself."""

    name: str
    """What distinguishes points of one line: the branch's arm, the combination of an expression's
    terms, the bit and direction of a toggle (``count[3]:0->1``), the state, or the arc between two
    (``IDLE->RUN``)."""

    lines: str
    """Lines that are executed with it, for example ``12-14,17``; may be empty."""


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one kind."""

    metric: Metric
    covered: int
    total: Annotated[int, msgspec.Meta(ge=1)]

    def __post_init__(self) -> None:
        """Refuse more covered points than there are."""
        if not 0 <= self.covered <= self.total:
            raise ValueError(
                f"coverage needs 0 <= covered <= total, got {self.covered} of {self.total}"
            )


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Which points of a design were covered, over the design's own, fixed set of points."""

    points_hash: str
    """Hash of the point set that the bits of ``hits`` stand for."""

    hits: bytes
    """One bit for each point, in the set's order, the first in the lowest bit of the first byte."""

    kinds: tuple[KindCount, ...]
    """Kinds that the design has, in the order of `METRICS`, unreachable points left out."""

    @property
    def overall_average(self) -> float:
        """Unweighted mean of the kinds' shares, 0..1: the headline, and what thresholds are on."""
        if not self.kinds:
            return 0.0
        return sum(each.covered / each.total for each in self.kinds) / len(self.kinds)

    @property
    def overall_covered(self) -> float:
        """Share of all points, whatever their kind, 0..1."""
        total = sum(each.total for each in self.kinds)
        return sum(each.covered for each in self.kinds) / total if total else 0.0

    def hit(self, index: int) -> bool:
        """Return whether the point at ``index`` of the set was covered."""
        return bool(self.hits[index // 8] >> index % 8 & 1)


class Covered(msgspec.Struct, frozen=True, kw_only=True, tag="covered"):
    """The testbench compiled and ran."""

    coverage: Coverage
    ended: Literal["finish", "quiet", "slot_limit"]
    """``quiet``: nothing was left to happen. ``slot_limit``: cut off after ``limits.slots``."""

    slots: int
    time: int
    """Simulated time, in the simulation's smallest unit."""

    log: str
    """End of what the testbench printed."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a testbench may not contain."""

    line: int
    column: int
    message: str


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """The source gate refused the text; nothing of it was compiled."""

    violations: Annotated[tuple[Violation, ...], msgspec.Meta(min_length=1)]


class PatchFailed(msgspec.Struct, frozen=True, kw_only=True, tag="patch_failed"):
    """Hunks did not apply, or the text is not a patch."""

    hunks: tuple[int, ...]
    """The hunks that did not, counted from 1; empty where the text is not a patch."""

    reason: str


class BadStimulus(msgspec.Struct, frozen=True, kw_only=True, tag="bad_stimulus"):
    """The program does not parse, or names a port that is not there."""

    line: int
    reason: str


class CompileFailed(msgspec.Struct, frozen=True, kw_only=True, tag="compile_failed"):
    """The testbench does not compile with the design."""

    message: str
    """Diagnostics as ``tb.sv:line:column: error: text``, without any path of the machine."""


class SimulationFailed(msgspec.Struct, frozen=True, kw_only=True, tag="simulation_failed"):
    """The simulation ended with an error of its own."""

    message: str


class NotCovered(msgspec.Struct, frozen=True, kw_only=True, tag="not_covered"):
    """It ran, but the module under verification has no instance where it is looked for."""

    message: str


class TimedOut(msgspec.Struct, frozen=True, kw_only=True, tag="timed_out"):
    """A limit of time or memory was met."""

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
"""What a policy can cause, so all of it is graded. A broken machine is not in this list."""


def reward_of(outcome: Outcome) -> float:
    """Return 0 where the simulation failed, else 1 + the overall average, 1..2 (LLM4Cov)."""
    return 1.0 + outcome.coverage.overall_average if isinstance(outcome, Covered) else 0.0


class StageCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage of an evaluation took."""

    stage: Literal["check", "verilate", "compile", "link", "simulate", "read"]
    cpu_s: float
    wall_s: float


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluated"):
    """A submission that was graded."""

    key: str
    """Hash of all that the outcome is a function of: toolchain, unit, text, seed and limits."""

    testbench: str
    """The text that ran: of a patch or a stimulus, what it comes to; empty where there is none."""

    outcome: Outcome
    seed: int
    stages: tuple[StageCost, ...]
    toolchain: str
    sandbox: SandboxLevel | None
    """None where nothing was run, because it had been graded before."""

    cached: bool = False

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all stages."""
        return sum(stage.cpu_s for stage in self.stages)

    @property
    def reward(self) -> float:
        """What the outcome is worth, 0 or 1..2."""
        return reward_of(self.outcome)
