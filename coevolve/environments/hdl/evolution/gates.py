"""The gates that a candidate on a design has to pass: all rest on what was executed.

| gate                 | what it refuses                                                           |
|----------------------|---------------------------------------------------------------------------|
| `malformed`          | a design, a point or a task that is not there, or a point that counts not |
| `contaminated`       | a held-out design                                                         |
| `no_effect`          | a goal that the start covers; a threshold no harder; constants that the   |
|                      | good testbench need not know                                              |
| `does_not_elaborate` | a variant that the simulator does not build                               |
| `other_points`       | a variant with another number of points                                   |
| `unreached`          | a goal or a threshold that no testbench on record, nor the design's good  |
|                      | one, reaches                                                              |
| `not_deterministic`  | a testbench on record that does not do again what it did; a variant whose |
|                      | good testbench covers other points the second time                        |
| `good_covers_little` | a variant whose good testbench covers less than designs are admitted with |
| `poor_covers_much`   | a variant whose poor testbench covers more                                |

A design's own testbenches are executed and never shown: nothing that leaves here holds them.
Testbenches on record are the signal's evidence; they are executed anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from coevolve.environments.hdl.coverage.gaps import reachable
from coevolve.environments.hdl.coverage.points import point_set
from coevolve.environments.hdl.curation.states import average, reached
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.variants import varied
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.steps import succeeds
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.journal.codec import SIGNALS_BY_ID, decode_as
from coevolve.journal.retained import retained_rollouts
from coevolve.journal.task_cache import TaskShelf
from protocols.config import RunConfig
from protocols.design_evolution import (
    DesignCandidate,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
)
from protocols.designs import GOOD_AT_LEAST, POOR_AT_MOST, Design, PointsFile
from protocols.errors import ConfigError, JournalError
from protocols.evolution import Gate, Refused, Signal
from protocols.hardware import Stimulus, Submission, Testbench
from protocols.interfaces import Reader, TestbenchSimulator
from protocols.tasks import CoverageTask, Synthesized
from protocols.transitions import Graded, coverage_of


@dataclass(frozen=True, kw_only=True)
class Sound:
    """The candidate passed every gate."""

    task: CoverageTask
    made: Design | None
    """The design that the task is about, where the run has to learn it; without testbenches."""

    successes: int
    """Rollouts of the evidence that would have done the task, and all on the same design."""

    rollouts: int


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the gates say of a candidate."""

    outcome: Sound | Refused
    simulator_calls: int


class DesignGates:
    """Asks every gate that concerns the candidate alone."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Execute by ``simulator``, which is to remember nothing."""
        self._config = config
        self._reader = reader
        self._catalogue = catalogue
        self._simulator = simulator
        self._tasks = TaskShelf(reader, CoverageTask)
        self._good: dict[str, Graded] = {}
        """What designs' good testbenches come to; admission saw that they do so every time."""

    async def examine(self, candidate: DesignCandidate) -> Findings:
        """Ask gate after gate until one refuses.

        Raises SimulatorError where a machine failed; nothing is then known of the candidate.
        """
        trial = _Trial(self._config, self._simulator)
        try:
            outcome = await self._outcome(candidate, trial)
        except _RefusedError as refusal:
            outcome = refusal.refused
        return Findings(outcome=outcome, simulator_calls=trial.calls)

    async def _outcome(self, candidate: DesignCandidate, trial: "_Trial") -> Sound:
        change = candidate.change
        try:
            design = await self._catalogue.get(change.design)
        except JournalError as error:
            raise _RefusedError("malformed", f"there is no design {change.design!r}") from error
        if design.file.split != "train":
            raise _RefusedError("contaminated", f"{change.design} is held out")
        task = msgspec.structs.replace(
            beginning(design, self._config),
            task_id=f"task-{candidate.candidate_id}",
            origin=Synthesized(candidate_id=candidate.candidate_id, signal_id=candidate.signal_id),
        )
        evidence = await self._evidence(candidate, design)
        match change:
            case RegionGoal():
                task = await self._with_goal(task, change, design)
            case HarderThreshold():
                task = await self._with_threshold(task, change)
            case DesignVariant():
                made = await self._variant(candidate, change, design, trial)
                named = msgspec.structs.replace(task, design=made.design_id)
                return Sound(task=named, made=made, successes=0, rollouts=0)
            case _:
                assert_never(change)
        done = [state for state in evidence if state is not None and succeeds(task, state)]
        await self._refuse_unreached(task, design, done, trial)
        return Sound(task=task, made=None, successes=len(done), rollouts=len(evidence))

    async def _with_goal(
        self, task: CoverageTask, change: RegionGoal, design: Design
    ) -> CoverageTask:
        points = await self._simulator.points(design.unit)
        counted = frozenset(reachable(points, design.unit))
        for point in change.points:
            if point not in counted:
                raise _RefusedError("malformed", f"point {point} of {len(points)} does not count")
        found = await retained_rollouts(self._reader, (change.start,)) if change.start else {}
        for start in found.values():
            before = await self._tasks.get(start.task_id)
            if start.graded is None or before.design != design.design_id:
                raise _RefusedError("malformed", "the start is no testbench of the design")
            if len(reached(change.points, start.graded)) == len(change.points):
                raise _RefusedError("no_effect", "the start covers the goal")
            parent = f"{start.group_id}/{start.index}"
            task = msgspec.structs.replace(task, state=start.graded, parent=parent)
        return msgspec.structs.replace(task, goal=change.points)

    async def _with_threshold(self, task: CoverageTask, change: HarderThreshold) -> CoverageTask:
        try:
            than = (await self._tasks.get(change.than)).threshold
        except JournalError as error:
            if change.than != change.design:
                raise _RefusedError("malformed", f"there is no task {change.than!r}") from error
            than = task.threshold  # the design was not begun yet
        if change.threshold <= than:
            raise _RefusedError("no_effect", f"{change.threshold} is no harder than {than}")
        return msgspec.structs.replace(task, threshold=change.threshold)

    async def _refuse_unreached(
        self, task: CoverageTask, design: Design, done: Sequence[Graded], trial: "_Trial"
    ) -> None:
        """Refuse what no executed testbench does."""
        if done:
            if not succeeds(task, await trial.repeat(design, done[0], task.instance)):
                raise _RefusedError("not_deterministic", "a testbench did not do it again")
            return
        good = design.testbenches.get("good", "")
        if good and design.design_id not in self._good:
            self._good[design.design_id] = await trial.run(design, Testbench(text=good))
        if not good or not succeeds(task, self._good[design.design_id]):
            raise _RefusedError("unreached", "no testbench does it")

    async def _variant(
        self, candidate: DesignCandidate, change: DesignVariant, design: Design, trial: "_Trial"
    ) -> Design:
        if design.design_id not in self._catalogue.given:
            raise _RefusedError("malformed", f"{design.design_id} is a variant itself")
        name = f"{design.design_id}.{candidate.candidate_id}"
        made = varied(design, change.constants, name)
        try:
            points = await self._simulator.points(made.unit)
        except ConfigError as error:
            raise _RefusedError("does_not_elaborate", str(error)) from error
        count = len(await self._simulator.points(design.unit))
        if len(points) != count:
            raise _RefusedError("other_points", f"{len(points)}, the design itself has {count}")
        await _refuse_weak(made, design, trial)
        frozen = PointsFile(count=count, sha256=point_set(points).sha256)
        return msgspec.structs.replace(
            made,
            file=msgspec.structs.replace(made.file, points=frozen),
            unit=msgspec.structs.replace(made.unit, points_sha256=frozen.sha256),
            testbenches={},
        )

    async def _evidence(self, candidate: DesignCandidate, design: Design) -> list[Graded | None]:
        """Return what the signal's rollouts on this design made."""
        found = await self._reader.find(SIGNALS_BY_ID, candidate.signal_id, limit=1)
        sequences = decode_as(found[0], Signal).evidence if found else ()
        rollouts = (await retained_rollouts(self._reader, sequences)).values()
        tasks = {each.task_id: await self._tasks.get(each.task_id) for each in rollouts}
        return [each.graded for each in rollouts if tasks[each.task_id].design == design.design_id]


class _RefusedError(Exception):
    """A gate refused; only ever seen by `DesignGates.examine`."""

    def __init__(self, gate: Gate, found: str) -> None:
        super().__init__(found)
        self.refused = Refused(gate=gate, found=found)


class _Trial:
    """Executions for one candidate, counted."""

    def __init__(self, config: RunConfig, simulator: TestbenchSimulator) -> None:
        self._limits = hdl_settings(config).limits
        self._simulator = simulator
        self.calls = 0

    async def run(self, design: Design, submission: Submission, instance: str = "") -> Graded:
        """Return what a testbench comes to."""
        self.calls += 1
        evaluated = await self._simulator.evaluate(
            grading(design, submission, self._limits, instance=instance)
        )
        return graded(submission, evaluated)

    async def repeat(self, design: Design, state: Graded, instance: str) -> Graded:
        """Return what a testbench on record comes to this time."""
        if state.program:
            return await self.run(design, Stimulus(program=state.program), instance)
        return await self.run(design, Testbench(text=state.testbench), instance)


async def _refuse_weak(made: Design, design: Design, trial: _Trial) -> None:
    """Refuse a variant whose testbenches are not what admission asks of a design's."""
    good = Testbench(text=made.testbenches["good"])
    one, other = await trial.run(made, good), await trial.run(made, good)
    first, second = coverage_of(one), coverage_of(other)
    if average(first) < GOOD_AT_LEAST:
        raise _RefusedError("good_covers_little", f"{float(average(first)):.4f}")
    if first != second:
        raise _RefusedError("not_deterministic", "two runs cover different points")
    poor = average(coverage_of(await trial.run(made, Testbench(text=made.testbenches["poor"]))))
    if poor > POOR_AT_MOST:
        raise _RefusedError("poor_covers_much", f"{float(poor):.4f}")
    old = average(coverage_of(await trial.run(made, Testbench(text=design.testbenches["good"]))))
    if old >= average(first):
        raise _RefusedError("no_effect", f"the old constants reach {float(old):.4f} as well")
