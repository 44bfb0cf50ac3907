"""Describes tasks on designs in a few words."""

from coevolve.environments.hdl.policy.task import DesignTask
from coevolve.environments.hdl.policy.transition import coverage_of

PERCENT = 100


def asked(task: DesignTask) -> str:
    """Return the task's goal and its start, e.g. ``cover 95 % of alu16, from 80.1 %``."""
    before = coverage_of(task.state)
    start = f", from {PERCENT * before.overall_average:.1f} %" if before else ""
    return f"cover {PERCENT * task.threshold:.0f} % of {task.design}{start}"
