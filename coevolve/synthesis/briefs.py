"""Builds a synthesizer's briefs from the journal, so that the same journal gives the same briefs.

Guarantees: a brief contains nothing of a reference solution and nothing of a held-out task. All
random draws depend only on the run's seed and the signal's id.

Rollouts deleted by retention are left out, so a brief that is rebuilt much later may have fewer
attempts than the first time.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from coevolve.journal.codec import decode_as
from coevolve.journal.task_cache import TaskCache, unread
from protocols.config import RunConfig
from protocols.errors import JournalError, LeakError
from protocols.evolution import OnPattern, OnTask, Signal
from protocols.interfaces import Reader
from protocols.journal import StoredRecord
from protocols.rollouts import Rollout
from protocols.synthesis import Anything, Attempt, Brief, Synthesis
from protocols.tasks import Task

SEED_BYTES = 4
"""Seeds of this size are accepted by all servers."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a brief, and its evidence."""

    about: OnTask | OnPattern | Anything
    evidence: tuple[int, ...]
    """Journal sequences of rollouts."""


class BriefContext(Protocol):
    """The environment's additions to briefs."""

    def context(self, signal: Signal, task: Task | None) -> msgspec.Raw:
        """Return the body of `protocols.synthesis.Brief.context`.

        ``task`` is the signal's task, if the signal is about a task. The result depends only on
        these arguments and the run's seed.
        """
        ...

    def practises(self, brief: Brief, task: Task | None, body: msgspec.Raw) -> bool:
        """Return whether a candidate's ``body`` asks for what the brief is about.

        ``task`` is the task that the brief is about, if it is about one.
        """
        ...


class BriefWriter:
    """Builds briefs of one run."""

    def __init__(self, config: RunConfig, *, reader: Reader, context: BriefContext) -> None:
        self._config = config
        self._reader = reader
        self._context = context
        self._tasks = TaskCache(reader, unread)

    async def brief(self, signal: Signal, subject: Subject) -> Brief:
        """Return the brief for ``signal``, about ``subject``.

        Raises LeakError if it would contain a held-out task.
        """
        task = None
        if isinstance(subject.about, OnTask):
            task = await self._training_task(subject.about.task_id, signal)
        return Brief(
            signal_id=signal.signal_id,
            kind=signal.kind,
            about=subject.about,
            attempts=await self._attempts(signal, subject.evidence),
            steps=self._config.synthesizer.steps,
            context=self._context.context(signal, task),
            seed=seed_of(self._config.seed, signal.signal_id, "brief"),
            policy_version=signal.policy_version,
        )

    async def practising(self, brief: Brief, synthesis: Synthesis) -> Synthesis:
        """Return the synthesis without the candidates that do not practise the brief's subject."""
        about = brief.about
        task = await self._tasks.get(about.task_id) if isinstance(about, OnTask) else None
        return msgspec.structs.replace(
            synthesis,
            candidates=tuple(
                each
                for each in synthesis.candidates
                if self._context.practises(brief, task, each.body)
            ),
        )

    async def _attempts(self, signal: Signal, sequences: Sequence[int]) -> tuple[Attempt, ...]:
        rollouts = (await retained_rollouts(self._reader, sequences)).values()
        for task_id in sorted({rollout.task_id for rollout in rollouts}):
            await self._training_task(task_id, signal)
        return tuple(
            Attempt(
                actions=rollout.actions,
                succeeded=rollout.succeeded,
                turns_passed=rollout.turns_passed,
                ended=rollout.ended,
            )
            for rollout in rollouts
        )

    async def _training_task(self, task_id: str, signal: Signal) -> Task:
        task = await self._tasks.get(task_id)
        if task.split != "train":
            raise LeakError(
                f"signal {signal.signal_id}: a brief needs tasks of the split train, found task "
                f"{task_id!r} of the split {task.split}; no part may request rollouts of it"
            )
        return task


def seed_of(run_seed: int, signal_id: str, what: str) -> int:
    """Return a reproducible seed for one purpose; 0 <= seed < 2**31."""
    digest = hashlib.sha256(f"{run_seed}/{signal_id}/{what}".encode()).digest()
    return int.from_bytes(digest[:SEED_BYTES]) >> 1


async def retained_rollouts(reader: Reader, sequences: Sequence[int]) -> dict[int, Rollout]:
    """Return the rollouts that the journal still has, by sequence, in the requested order."""
    return {
        record.sequence: decode_as(record, Rollout)
        for record in await _read_retained(reader, sequences)
    }


async def _read_retained(reader: Reader, sequences: Sequence[int]) -> Sequence[StoredRecord]:
    """Return the records that the journal still has, in the requested order."""
    try:
        return await reader.read(sequences)
    except JournalError:
        if len(sequences) == 1:
            return ()
        return [record for each in sequences for record in await _read_retained(reader, (each,))]
