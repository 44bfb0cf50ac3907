"""A whole run in one process: the parts that the actors run, without Ray."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from coevolve.build import parts as build
from coevolve.environments.registry import environment_of
from coevolve.journal.codec import decode, decode_as, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.control import RunStarted
from protocols.interfaces import Part
from protocols.journal import Append, Receipt
from protocols.learning import Evaluation


async def run_here(config: RunConfig, folder: Path) -> LocalStore:
    """Run every part as a task of this loop until the last version is scored."""
    store = LocalStore(Journal.open(folder / "store"))
    await store.append(
        Append(
            records=(encode(RunStarted(run_id="here", config="{}")),),
            receipt=Receipt(producer="test", counter=1),
        )
    )
    context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=store)
    workers = [environment_of(config).simulator()]
    engine, scoring = build.generator(context, 8), build.evaluator_engine(context)
    parts: list[Part] = [
        build.curriculum(context),
        build.signals(context, workers),
        build.rollout_worker(context, "rollout-0", engine, workers),
        build.learner(context),
        build.evaluator(context, scoring, workers),
    ]
    if config.synthesizes:
        parts += [build.synthesizer(context, workers), build.validator(context, workers)]
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
    for each in (engine, *([scoring] if scoring else [])):
        await each.close()
    for worker in workers:
        await worker.close()
    return store


async def everything(store: LocalStore, kind: type[msgspec.Struct]) -> list[Any]:
    """Return every message of a kind."""
    return [decode(record) for record in await store.scan(topic_of(kind), limit=10_000)]
