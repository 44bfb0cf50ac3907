"""The exports that the environment offers for a run on designs, and its tasks in a few words."""

from collections.abc import Mapping

from coevolve.environments.hdl.policy.task import DesignTask
from coevolve.environments.hdl.policy.transition import coverage_of
from coevolve.environments.sdk import Exporter

EXPORTERS: Mapping[str, Exporter] = {
    "transitions": Exporter(
        about="steps on hardware designs for supervised fine-tuning, as JSON lines",
        file="train.jsonl",
        module="coevolve.environments.hdl.export.transitions",
        options={
            "form": ("chat", "llamafactory"),
            "keep": ("stage", "paper", "released", "warm_up", "unfiltered"),
        },
    ),
}


PERCENT = 100


def asked(task: DesignTask) -> str:
    """Return the task's goal and its start, e.g. ``cover 95 % of alu16, from 80.1 %``."""
    before = coverage_of(task.state)
    start = f", from {PERCENT * before.overall_average:.1f} %" if before else ""
    return f"cover {PERCENT * task.threshold:.0f} % of {task.design}{start}"
