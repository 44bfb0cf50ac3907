"""Checks that the environment has the capabilities it declares, with its designs' testbenches."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from coevolve.environments.hdl.curation.states import average, meets
from coevolve.environments.hdl.designs.design import GOOD_AT_LEAST, QUALITIES, Design, Quality
from coevolve.environments.hdl.designs.instances import DesignInstances
from coevolve.environments.hdl.policy.transition import coverage_of
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Coverage, SimulationLimits, Testbench
from coevolve.environments.sdk import EARNED, Checks, Finding, findings
from protocols.capabilities import Capabilities

INSTANCE = 1

_Coverages = dict[tuple[str, Quality], Coverage | None]
"""Coverage by design and testbench; None where the testbench did not run to its end."""


@dataclass(frozen=True)
class _Subject:
    designs: Sequence[Design]
    simulator: TestbenchSimulator
    limits: SimulationLimits
    once: _Coverages
    again: _Coverages
    """Coverage of a second simulation, with all designs at the same time."""

    seconds: float
    """Duration of the first simulation of all testbenches."""


async def conformance(
    designs: Sequence[Design],
    simulator: TestbenchSimulator,
    limits: SimulationLimits,
    claimed: Capabilities,
) -> tuple[Finding, ...]:
    """Return the findings of every check. Raises SimulatorError on an infrastructure failure."""
    began = time.perf_counter()
    once: _Coverages = {
        (design.design_id, quality): await _simulate(design, quality, simulator, limits)
        for design in designs
        for quality in QUALITIES
    }
    seconds = time.perf_counter() - began
    again = await asyncio.gather(
        *(
            _simulate(design, quality, simulator, limits)
            for design in designs
            for quality in QUALITIES
        )
    )
    subject = _Subject(
        designs, simulator, limits, once, dict(zip(once, again, strict=True)), seconds
    )
    return await findings(CHECKS, subject, claimed)


async def _simulate(
    design: Design, quality: Quality, simulator: TestbenchSimulator, limits: SimulationLimits
) -> Coverage | None:
    submission = Testbench(text=design.testbenches[quality])
    evaluated = await simulator.evaluate(grading(design, submission, limits))
    return coverage_of(graded(submission, evaluated))


async def _good_testbenches(subject: _Subject) -> tuple[bool, str]:
    """Check that every design's good testbench covers at least `GOOD_AT_LEAST`."""
    for design in subject.designs:
        share = float(average(subject.once[design.design_id, "good"]))
        if share < GOOD_AT_LEAST:
            return (
                False,
                f"{design.design_id}: covers {share:.2f}, at least {GOOD_AT_LEAST} is required",
            )
    return True, f"{len(subject.designs)} designs"


async def _replayable(subject: _Subject) -> tuple[bool, str]:
    """Check that the same testbench covers as much the second time."""
    for key, coverage in subject.once.items():
        if average(coverage) != average(subject.again[key]):
            return False, f"{key[0]}, {key[1]}: different coverage the second time"
    return True, f"{len(subject.once)} testbenches twice"


async def _same_points(subject: _Subject) -> tuple[bool, str]:
    """Check that the same testbench covers the same points the second time."""
    for key, coverage in subject.once.items():
        if coverage != subject.again[key]:
            return False, f"{key[0]}, {key[1]}: different points the second time"
    return True, f"{len(subject.once)} sets of points"


async def _fresh_instances(subject: _Subject) -> tuple[bool, str]:
    """Check that every design has an instance."""
    instances = DesignInstances(subject.designs, subject.simulator, subject.limits)
    for design in subject.designs:
        if not await instances.holds(design, INSTANCE):
            return False, f"{design.design_id}: no testbench of an instance covers as much"
    return True, f"{len(subject.designs)} designs"


async def _poor_fails(subject: _Subject) -> tuple[bool, str]:
    """Check that neither a poor testbench nor a missing one reaches the threshold."""
    for design in subject.designs:
        for coverage in (subject.once[design.design_id, "poor"], None):
            if meets(coverage, design.file.threshold):
                return False, f"{design.design_id}: a poor testbench passes"
    return True, f"{len(subject.designs)} designs: neither a poor testbench nor none passes"


async def _disjoint_splits(subject: _Subject) -> tuple[bool, str]:
    """Check that no family of designs is in both splits."""
    families = {
        split: {each.file.family for each in subject.designs if each.file.split == split}
        for split in ("train", "held_out")
    }
    shared = families["train"] & families["held_out"]
    if shared:
        return False, f"families on both sides: {', '.join(sorted(shared))}"
    return True, f"{len(families['train'])} families, {len(families['held_out'])} held out"


async def _speed(subject: _Subject) -> tuple[bool, str]:
    return True, f"{len(subject.once) / subject.seconds:.2g} evaluations a second, one at a time"


CHECKS: Checks[_Subject] = {
    "good testbenches": _good_testbenches,
    "replayable": _replayable,
    "state_digest": _same_points,
    "fresh_instances": _fresh_instances,
    "deterministic_reward": _replayable,
    EARNED: _poor_fails,
    "splits are disjoint": _disjoint_splits,
    "speed": _speed,
}
