"""The package's own executor and checker, run on a conversation given as calls per turn."""

import contextlib
import copy
import importlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from coevolve.environments.tools.bfcl.stock import CLASSES, package_folder
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import SimulatorConfig
from protocols.tasks import Task

EVALUATION = "bfcl_eval.eval_checker.multi_turn_eval"
Turns = Sequence[Sequence[str]]


class Stock:
    """Numbers its conversations: the package keeps every instance in its module's globals."""

    def __init__(self) -> None:
        package_folder()
        self._executor: Any = importlib.import_module(f"{EVALUATION}.multi_turn_utils")
        self._checker: Any = importlib.import_module(f"{EVALUATION}.multi_turn_checker")
        self._numbers = itertools.count()
        tools = f"{EVALUATION}.func_source_code"
        travel: Any = importlib.import_module(f"{tools}.travel_booking")
        tweet: Any = importlib.import_module(f"{tools}.posting_api").TwitterAPI.post_tweet
        self._shared = [
            (owner, name, copy.deepcopy(getattr(owner, name)))
            for owner, name in (
                (tweet, "__defaults__"),
                (travel, "CREDIT_CARD_EXTENSION"),
                (travel, "BOOKING_RECORD_EXTENSION"),
            )
        ]

    def verdict(self, task: Task, turns: Turns) -> str:
        """Return the checker's word for what is wrong, or an empty text."""
        reference = [list(turn.reference) for turn in read_body(task.body).turns]
        steps = [[[call] for call in turn] for turn in turns]
        entry = self._entry(task)
        with self._cleared():
            verdict = self._checker.multi_turn_checker(steps, reference, entry, "", "model")
        return "" if verdict["valid"] else verdict["error_type"].removeprefix("multi_turn:")

    def answers(self, task: Task, calls: Sequence[str]) -> list[str]:
        """Return what the executor prints for each call, in one world."""
        entry = self._entry(task)
        with self._cleared():
            answers, _ = self._executor.execute_multi_turn_func_call(
                list(calls),
                entry["initial_config"],
                entry["involved_classes"],
                "model",
                entry["id"],
                long_context=read_body(task.body).long_context,
            )
        return answers

    def _entry(self, task: Task) -> dict[str, Any]:
        category = (
            "multi_turn_long_context" if read_body(task.body).long_context else "multi_turn_base"
        )
        return {
            "id": f"{category}_{next(self._numbers)}",
            "initial_config": json.loads(read_body(task.body).world),
            "involved_classes": list(read_body(task.body).classes),
        }

    @contextlib.contextmanager
    def _cleared(self) -> Generator[None]:
        """Leave nothing of a conversation behind in the package's modules."""
        try:
            yield
        finally:
            for name in [name for name in vars(self._executor) if name.endswith("_instance")]:
                delattr(self._executor, name)
            for owner, name, value in self._shared:
                setattr(owner, name, copy.deepcopy(value))


@pytest.fixture(scope="session")
def stock() -> Stock:
    return Stock()


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[ToolWorker]:
    worker = ToolWorker(SimulatorConfig(), CLASSES)
    yield worker
    await worker.close()


@pytest_asyncio.fixture
async def open_worker() -> AsyncIterator[Callable[[SimulatorConfig], ToolWorker]]:
    """A function that makes workers which are closed after the test."""
    workers: list[ToolWorker] = []

    def make(config: SimulatorConfig) -> ToolWorker:
        workers.append(ToolWorker(config, CLASSES))
        return workers[-1]

    yield make
    for worker in workers:
        await worker.close()
