"""The whole loop in one process: the parts that the actors run, without Ray."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from coevolve import assembly
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.config import RunConfig
from protocols.control import RunStarted
from protocols.interfaces import Part
from protocols.journal import Append, Receipt
from protocols.learning import Evaluation, StepReport


def small(config: RunConfig, **tasks: object) -> RunConfig:
    tree = msgspec.to_builtins(config)
    tree["learner"] |= {"steps": 2, "groups_per_step": 2}
    tree["rollout"] |= {"group_size": 2}
    tree["evaluator"] |= {"every": 1}
    tree["tasks"] |= {"held_out": 4, "pool": 6, **tasks}
    return msgspec.convert(tree, RunConfig)


async def run_here(config: RunConfig, folder: Path) -> LocalStore:
    """Run every part as a task of this loop until the last version is scored."""
    store = LocalStore(Journal.open(folder / "store"))
    await store.append(
        Append(
            records=(encode(RunStarted(run_id="here", config="{}")),),
            receipt=Receipt(producer="test", counter=1),
        )
    )
    site = assembly.Site(config=config, run_dir=folder, store=store, reader=store)
    workers = [assembly.simulator_worker(config)]
    engines = [assembly.generator(site, 8), assembly.generator(site, 8)]
    parts: list[Part] = [
        assembly.curriculum(site),
        assembly.rollout_worker(site, "rollout-0", engines[0], workers),
        assembly.learner(site),
        assembly.evaluator(site, engines[1], workers),
    ]
    running = [asyncio.create_task(part.run()) for part in parts]
    seen = 0
    while True:
        seen = await store.wait(("evaluation",), seen, 60)
        newest = await store.last("evaluation")
        assert newest is not None
        if decode_as(newest, Evaluation).version == config.learner.steps:
            break
    for part in parts:
        await part.stop()
    await asyncio.gather(*running)
    for engine in engines:
        await engine.close()
    for worker in workers:
        await worker.close()
    return store


@pytest.mark.parametrize("source", ["static", "uniform"])
async def test_the_loop_trains_and_scores_every_version(
    source: str, quickstart: RunConfig, tmp_path: Path
):
    store = await run_here(small(quickstart, source=source), tmp_path)
    reports = [decode_as(record, StepReport) for record in await store.scan("step_report")]
    assert [report.step for report in reports] == [1, 2]
    scored = [decode_as(record, Evaluation) for record in await store.scan("evaluation")]
    assert [score.version for score in scored] == [0, 1, 2]
    assert all(len(score.scores) == 4 and score.void == 0 for score in scored)
    tasks = await store.scan("task")
    groups = {group.task_id for report in reports for group in report.groups}
    assert len(tasks) == 6 if source == "static" else len(groups) == 4


async def test_a_run_writes_no_held_out_task_into_the_journal(
    quickstart: RunConfig, tmp_path: Path
):
    config = small(quickstart)
    store = await run_here(config, tmp_path)
    held_out = {task.task_id for task in assembly.task_source(config).held_out()}
    asked = {key for record in await store.scan("task") for key in [record.body]}
    assert not any(task_id.encode() in body for task_id in held_out for body in asked)
