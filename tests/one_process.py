"""Reads a run that `coevolve.loop.run_here` carried out in this process."""

from pathlib import Path
from typing import Any

import msgspec

from coevolve.environments.initial_model import make_model
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode, topic_of
from coevolve.journal.local_store import LocalStore
from coevolve.loop import Until, run_here, until_scored
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.evolution import Candidate, CandidateVerdict, GroupSummary, Signal, SignalSettled
from protocols.learning import StepReport
from protocols.tasks import Synthesized, Task


async def everything(store: LocalStore, kind: type[msgspec.Struct]) -> list[Any]:
    """Return every message of a kind."""
    return [decode(record) for record in await store.scan(topic_of(kind), limit=10_000)]


async def run_in(
    runs: Path, config: RunConfig, until: Until = until_scored
) -> tuple[RunDirectory, LocalStore]:
    """Carry out a run in a folder of its own, as `python -m coevolve.loop` does."""
    directory = starting.create(runs / config.name, config)
    make_model(config, directory.path)
    run_id = directory.identity().run_id
    store = await run_here(directory.config(), directory.path, run_id, until)
    return directory, store


async def check_loop_is_closed(store: LocalStore) -> None:
    """Check that signals led to candidates, candidates to tasks, and that a step used one."""
    visits: list[GroupSummary] = await everything(store, GroupSummary)
    signals: list[Signal] = await everything(store, Signal)
    settled: list[SignalSettled] = await everything(store, SignalSettled)
    candidates: list[Candidate] = await everything(store, Candidate)
    verdicts: list[CandidateVerdict] = await everything(store, CandidateVerdict)
    tasks: list[Task] = await everything(store, Task)
    assert len({visit.group_id for visit in visits}) == len(visits) >= 32
    assert {each.signal_id for each in settled} <= {signal.signal_id for signal in signals}
    assert {each.candidate_id for each in verdicts} <= {each.candidate_id for each in candidates}
    made = {task.task_id for task in tasks if isinstance(task.origin, Synthesized)}
    reports: list[StepReport] = await everything(store, StepReport)
    assert made & {group.task_id for report in reports for group in report.groups}
