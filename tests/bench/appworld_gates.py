"""What the gates of appworld refuse and admit falsely, beside a reader that makes no mistake.

``python -m tests.bench appworld-gates --sample 1 --planted 6`` takes half an hour of CPU. The
reader is that of `tests.app_reader`, which knows what each instruction asks for. A line for each
template and for each kind of fault: candidates, how many pass the gates that need no reader, how
many are admitted, and what the others are refused by.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial

from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.gates.gates import CodeGates
from coevolve.environments.appworld.own import (
    own_data,
    task_ids,
    template_names,
    template_of,
)
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.appworld.source import own_tasks
from coevolve.environments.appworld.worker import AppWorldWorker
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import tool_task
from protocols.config import SimulatorConfig
from protocols.tasks import Task
from tests.app_reader import KnowingReader
from tests.coevolve.environments.appworld.planted_kinds import chosen_ids, kinds_of_code
from tests.spoiling.calibration import GateCalibration, Sample, by_label
from tests.spoiling.rates import GateRates, KindRate

BY_READER = ("means_otherwise", "unread")
SHOWN_CHARS = 150


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench appworld-gates")
    parser.add_argument("--sample", type=int, default=1, help="own tasks of each template")
    parser.add_argument("--planted", type=int, default=6, help="spoilt tasks of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--templates", nargs="*", default=())
    chosen = parser.parse_args(arguments)
    data = own_data(AppWorldConfig().world)
    ids = task_ids(chosen.templates or template_names(data), AppWorldConfig().scenarios)
    ids = chosen_ids(ids, chosen.sample, chosen.seed)
    tasks = own_tasks(data, ids, "train", AppWorldConfig().engine_memory_mb)
    _show(asyncio.run(measured(tasks, Sample(chosen.sample, chosen.planted, chosen.seed))))
    return 0


async def measured(tasks: Sequence[Task], sample: Sample) -> GateRates:
    """Return the rates on own tasks."""
    data = own_data(AppWorldConfig().world)
    limits = SimulatorConfig(timeout_s=60.0, memory_mb=512)
    worker = AppWorldWorker(AppWorldConfig(episodes=4), limits, lambda: data)
    simulator = SimulatorPool([worker])
    gates = CodeGates(
        simulator,
        documents=ApiDocuments.read(data),
        is_training=lambda _: True,
        blocks=20,
        reader=KnowingReader(simulator, list(map(tool_task, tasks))),
    )
    try:
        labels = {task.task_id: template_of(task.task_id) for task in tasks}
        kinds = partial(kinds_of_code, simulator)
        calibration = GateCalibration(gates, simulator, sample, kinds)
        return await calibration.rates(by_label(labels, tasks))
    finally:
        await worker.close()


def _show(rates: GateRates) -> None:
    for title, group in (
        ("own", rates.given),
        ("visible", [each for each in rates.planted if each.visible]),
        ("meaning", [each for each in rates.planted if not each.visible]),
    ):
        for rate in group:
            _line(title, rate)
        every = [(each.candidates, _past_gates(each), len(each.admitted)) for each in group]
        sums = [sum(column) for column in zip(*every, strict=True)] or [0, 0, 0]
        sys.stdout.write(f"{title}: {sums[0]} candidates, {sums[1]} pass, {sums[2]} admitted\n\n")


def _past_gates(rate: KindRate) -> int:
    return len(rate.admitted) + sum(each.gate in BY_READER for each in rate.refusals)


def _line(title: str, rate: KindRate) -> None:
    gates = ", ".join(f"{g} {n}" for g, n in Counter(r.gate for r in rate.refusals).most_common())
    sys.stdout.write(
        f"{title} | {rate.kind} | {rate.candidates} | {_past_gates(rate)} | "
        f"{len(rate.admitted)} | {gates}\n"
    )
    shown = rate.refusals if title == "own" else ()
    for each in shown:
        sys.stdout.write(f"    {each.task_id} {each.gate}: {each.found[:SHOWN_CHARS]}\n")
    if title != "own" and rate.admitted:
        sys.stdout.write(f"    admitted: {', '.join(rate.admitted)}\n")
    sys.stdout.flush()
