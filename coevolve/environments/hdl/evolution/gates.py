"""The gates that a candidate on a design has to pass; all depend on executed simulations.

| gate                 | refuses                                                                   |
|----------------------|---------------------------------------------------------------------------|
| `malformed`          | an unknown design, point or task, or a point that does not count          |
| `contaminated`       | a held-out design                                                         |
| `no_effect`          | a goal that the start covers; a threshold that is not harder; constants   |
|                      | that the good testbench does not need                                     |
| `does_not_elaborate` | a variant that the simulator cannot build                                 |
| `other_points`       | a variant with another number of points                                   |
| `unreached`          | a goal or a threshold that neither a testbench of the evidence nor the    |
|                      | design's good testbench reaches                                           |
| `not_deterministic`  | a testbench of the evidence with another result the second time; a        |
|                      | variant whose good testbench covers other points the second time          |
| `good_covers_little` | a variant whose good testbench covers less than admission requires        |
| `poor_covers_much`   | a variant whose poor testbench covers more than admission allows          |

A design's own testbenches are executed and never shown: no message from here contains them. The
evidence is that of the signal; its testbenches are executed again.
"""

import hashlib
from collections.abc import Sequence
from typing import assert_never

import msgspec

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.coverage.points import point_set
from coevolve.environments.hdl.curation.states import average, reached
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import GOOD_AT_LEAST, POOR_AT_MOST, Design, PointsFile
from coevolve.environments.hdl.designs.variants import varied
from coevolve.environments.hdl.evolution.messages import (
    DESIGN,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
    change_of,
)
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.steps import succeeds
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task, read_body
from coevolve.environments.hdl.policy.transition import Graded, coverage_of, graded_of
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.grading import graded, grading
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Stimulus, Submission, Testbench
from coevolve.journal.codec import SIGNALS_BY_ID, decode_as
from coevolve.journal.retained import retained_rollouts
from coevolve.journal.task_cache import TaskCache
from coevolve.validation.gates import Findings, Match, Sound
from protocols.config import RunConfig
from protocols.errors import ConfigError, JournalError
from protocols.evolution import Candidate, EnvironmentRecord, Gate, Refused, Signal
from protocols.interfaces import Reader
from protocols.tasks import body_of

ID_DIGITS = 12
"""Hexadecimal digits of the hash of constants in a variant's id."""


class DesignIndex:
    """A `coevolve.validation.gates.TaskIndex` that finds tasks with the same request.

    Two requests are the same if design and goal are the same or, without a goal, design and
    threshold.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[object, ...]] = {}

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Add a task under ``key``, or replace the one there."""
        self._tasks[key] = _request(body)

    def discard(self, key: str) -> None:
        """Remove a task; unknown keys are ignored."""
        self._tasks.pop(key, None)

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return the first task with the same request; None if there is none."""
        request = _request(body)
        return next((Match(key, 1.0) for key, each in self._tasks.items() if each == request), None)

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        """Return the same as `nearest`, because a task on a design has one request."""
        return self.nearest(body)


def _request(body: msgspec.Raw) -> tuple[object, ...]:
    task = read_body(body)
    return (task.design, task.goal) if task.goal else (task.design, task.threshold)


class DesignGates:
    """Runs every gate that concerns only the candidate itself."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Execute with ``simulator``, which must not have a result cache."""
        self._config = config
        self._reader = reader
        self._catalogue = catalogue
        self._simulator = simulator
        self._tasks = TaskCache(reader, coverage_task)
        self._good: dict[str, Graded] = {}
        """Results of designs' good testbenches; admission has checked that they are
        deterministic."""

    async def examine(self, candidate: Candidate) -> Findings:
        """Run the gates in order until one refuses.

        Raises SimulatorError on an infrastructure failure; the candidate then has no result.
        """
        trial = _Trial(self._config, self._simulator)
        try:
            outcome = await self._outcome(candidate, trial)
        except _RefusedError as refusal:
            outcome = refusal.refused
        return Findings(outcome=outcome, simulator_calls=trial.calls)

    async def read(self, candidate: Candidate, findings: Findings) -> Findings:
        """Return the findings: a goal on a design has no instructions to misread."""
        return findings

    async def _outcome(self, candidate: Candidate, trial: "_Trial") -> Sound:
        change = change_of(candidate)
        try:
            design = await self._catalogue.get(change.design)
        except JournalError as error:
            raise _RefusedError("malformed", f"there is no design {change.design!r}") from error
        if design.file.split != "train":
            raise _RefusedError("contaminated", f"{change.design} is held out")
        task = beginning(design, self._config)
        evidence = await self._evidence(candidate, design)
        match change:
            case RegionGoal():
                task = await self._with_goal(task, change, design)
            case HarderThreshold():
                task = await self._with_threshold(task, change)
            case DesignVariant():
                made = await self._variant(change, design, trial)
                task = msgspec.structs.replace(task, design=made.design_id)
                record = EnvironmentRecord(kind=DESIGN, key=made.design_id, body=body_of(made))
                return _sound(task, (0, 0), record)
            case _:
                assert_never(change)
        done = [state for state in evidence if state is not None and succeeds(task, state)]
        await self._refuse_unreached(task, design, done, trial)
        return _sound(task, (len(done), len(evidence)))

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
            before, state = await self._tasks.get(start.task_id), graded_of(start)
            if state is None or before.design != design.design_id:
                raise _RefusedError("malformed", "the start is no testbench of the design")
            if len(reached(change.points, state)) == len(change.points):
                raise _RefusedError("no_effect", "the start covers the goal")
            parent = f"{start.group_id}/{start.index}"
            task = msgspec.structs.replace(task, state=state, parent=parent)
        return msgspec.structs.replace(task, goal=change.points)

    async def _with_threshold(self, task: CoverageTask, change: HarderThreshold) -> CoverageTask:
        try:
            than = (await self._tasks.get(change.than)).threshold
        except JournalError as error:
            if change.than != change.design:
                raise _RefusedError("malformed", f"there is no task {change.than!r}") from error
            than = task.threshold  # no group has started on the design yet
        if change.threshold <= than:
            raise _RefusedError("no_effect", f"{change.threshold} is no harder than {than}")
        return msgspec.structs.replace(task, threshold=change.threshold)

    async def _refuse_unreached(
        self, task: CoverageTask, design: Design, done: Sequence[Graded], trial: "_Trial"
    ) -> None:
        """Refuse a task that no executed testbench solves."""
        if done:
            if not succeeds(task, await trial.repeat(design, done[0], task.instance)):
                raise _RefusedError("not_deterministic", "a testbench failed the second time")
            return
        good = design.testbenches.get("good", "")
        if good and design.design_id not in self._good:
            self._good[design.design_id] = await trial.run(design, Testbench(text=good))
        if not good or not succeeds(task, self._good[design.design_id]):
            raise _RefusedError("unreached", "no testbench reaches it")

    async def _variant(self, change: DesignVariant, design: Design, trial: "_Trial") -> Design:
        if design.design_id not in self._catalogue.given:
            raise _RefusedError("malformed", f"{design.design_id} is a variant itself")
        made = varied(design, change.constants, variant_id(change))
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

    async def _evidence(self, candidate: Candidate, design: Design) -> list[Graded | None]:
        """Return the results of the signal's rollouts on this design."""
        found = await self._reader.find(SIGNALS_BY_ID, candidate.signal_id, limit=1)
        sequences = decode_as(found[0], Signal).evidence if found else ()
        rollouts = (await retained_rollouts(self._reader, sequences)).values()
        tasks = {each.task_id: await self._tasks.get(each.task_id) for each in rollouts}
        return [
            graded_of(each) for each in rollouts if tasks[each.task_id].design == design.design_id
        ]


def variant_id(change: DesignVariant) -> str:
    """Return the id of a variant, which depends on its design and constants."""
    digest = hashlib.sha256(msgspec.msgpack.encode(change)).hexdigest()
    return f"{change.design}.{digest[:ID_DIGITS]}"


def _sound(task: CoverageTask, tried: tuple[int, int], *records: EnvironmentRecord) -> Sound:
    made = task.task()
    return Sound(body=made.body, skills=made.skills, records=records, tried=tried)


class _RefusedError(Exception):
    """A gate refused; caught by `DesignGates.examine`."""

    def __init__(self, gate: Gate, found: str) -> None:
        super().__init__(found)
        self.refused = Refused(gate=gate, found=found)


class _Trial:
    """The executions for one candidate, counted."""

    def __init__(self, config: RunConfig, simulator: TestbenchSimulator) -> None:
        self._limits = hdl_settings(config).limits
        self._simulator = simulator
        self.calls = 0

    async def run(self, design: Design, submission: Submission, instance: str = "") -> Graded:
        """Return the result of a testbench."""
        self.calls += 1
        evaluated = await self._simulator.evaluate(
            grading(design, submission, self._limits, instance=instance)
        )
        return graded(submission, evaluated)

    async def repeat(self, design: Design, state: Graded, instance: str) -> Graded:
        """Return the result of executing a recorded testbench again."""
        if state.program:
            return await self.run(design, Stimulus(program=state.program), instance)
        return await self.run(design, Testbench(text=state.testbench), instance)


async def _refuse_weak(made: Design, design: Design, trial: _Trial) -> None:
    """Refuse a variant whose testbenches do not satisfy admission."""
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
