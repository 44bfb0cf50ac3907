"""Describes tasks and candidates on designs in a few words."""

from typing import assert_never

from coevolve.environments.hdl.evolution.messages import (
    DesignChange,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
)
from coevolve.environments.hdl.policy.task import DesignTask
from coevolve.environments.hdl.policy.transition import coverage_of

PERCENT = 100


def asked(task: DesignTask) -> str:
    """Return the task's goal and its start, e.g. ``cover 95 % of alu16, from 80.1 %``."""
    before = coverage_of(task.state)
    start = f", from {PERCENT * before.overall_average:.1f} %" if before else ""
    if task.goal:
        return f"cover {_points(task.goal)} of {task.design}{start}"
    return f"cover {PERCENT * task.threshold:.0f} % of {task.design}{start}"


def changed(change: DesignChange) -> str:
    """Return what a candidate changes of a design."""
    match change:
        case RegionGoal():
            start = f", from the rollout at sequence {change.start}" if change.start else ""
            return f"cover {_points(change.points)} of {change.design}{start}"
        case HarderThreshold():
            return f"cover {PERCENT * change.threshold:.0f} % of {change.design}"
        case DesignVariant():
            words = ", ".join(f"{each.new:#x} for {each.old:#x}" for each in change.constants)
            return f"{change.design} with {words}"
        case _:
            assert_never(change)


def _points(points: tuple[int, ...]) -> str:
    return "1 point" if len(points) == 1 else f"{len(points)} points"
