"""Reads the learner's past from the journal: its steps and their batches.

Guarantee: reading the batch of a recorded step gives exactly the batch that the step used.
"""

from collections.abc import Mapping, Sequence, Set

from coevolve.journal.codec import STEPS_BY_NUMBER, VERSIONS_BY_NUMBER, decode_as, topic_of
from coevolve.journal.lookups import all_of, newest_of
from coevolve.journal.paging import stretch
from coevolve.journal.task_cache import TaskCache, unread
from coevolve.learning.batch import Batch, Rates
from coevolve.learning.group import BatchGroup
from coevolve.learning.recorded_checkpoints import recorded_checkpoints
from coevolve.learning.rows import Conversation
from protocols.errors import JournalError, LearnerError
from protocols.interfaces import Reader, Supervision
from protocols.learning import (
    Checkpoint,
    GroupDiscarded,
    PolicyVersion,
    Stage,
    StepReport,
    TrainedGroup,
)
from protocols.rollouts import Rollout, RolloutRequest
from protocols.tasks import Task, attempted


class History:
    """The learner's own records, and those of other parts that its steps depend on."""

    def __init__(self, reader: Reader, supervision: Supervision) -> None:
        """Read the records of one run; ``supervision`` is its environment's."""
        self._reader = reader
        self.supervision = supervision
        self._tasks = TaskCache(reader, unread)

    async def first_version(self) -> PolicyVersion | None:
        """Return version 0, or None if the run has not begun."""
        found = await self._reader.scan(topic_of(PolicyVersion), limit=1)
        return decode_as(found[0], PolicyVersion) if found else None

    async def newest_version(self) -> PolicyVersion | None:
        """Return the version published last, or None if the run has not begun."""
        return await newest_of(self._reader, PolicyVersion)

    async def version(self, number: int) -> PolicyVersion:
        """Return the record of a version. Raises LearnerError if the run never made it."""
        found = await self._reader.find(VERSIONS_BY_NUMBER, str(number))
        if not found:
            raise LearnerError(f"the journal has no policy version {number}; is it this run's?")
        return decode_as(found[-1], PolicyVersion)

    async def replaced_since_last_step(self) -> int:
        """Return how many uninformative groups were discarded for the next step."""
        last = await self._reader.last(topic_of(StepReport))
        after = last.sequence if last else 0
        discarded = [each.reason async for each in all_of(self._reader, GroupDiscarded, after)]
        return discarded.count("zero_variance")

    async def checkpoints(self) -> Mapping[int, Checkpoint]:
        """Return the checkpoints that exist, by step."""
        return (await recorded_checkpoints(self._reader)).existing

    async def newest_step(self) -> StepReport | None:
        """Return the report of the last step; None before the first one."""
        return await newest_of(self._reader, StepReport)

    async def milestones(self) -> set[int]:
        """Return the versions that are scored whatever their numbers."""
        versions = all_of(self._reader, PolicyVersion)
        return {each.version async for each in versions if each.is_milestone}

    async def opening_skills(self) -> Set[str]:
        """Return the skills of the tasks that the run opened with."""
        return {skill for task in await self._opening_tasks() for skill in _skills(task)}

    async def _opening_tasks(self) -> Sequence[Task]:
        """Return the tasks before any rollout request."""
        first = await self._reader.scan(topic_of(RolloutRequest), limit=1)
        if not first:
            return ()
        tasks = stretch(self._reader, topic_of(Task), 0, first[0].sequence)
        return [decode_as(record, Task) async for record in tasks]

    async def skills(self, task_id: str) -> Sequence[str]:
        """Return the skills of a task. Raises JournalError if the journal does not have it."""
        return _skills(await self._tasks.get(task_id))

    async def steps(self, *, after: int) -> list[StepReport]:
        """Return the steps after step ``after``, in order."""
        found = await self._reader.find(STEPS_BY_NUMBER, str(after), limit=1)
        known = found[0].sequence if found else 0
        reports = all_of(self._reader, StepReport, known)
        return [report async for report in reports if report.step > after]

    async def groups_consumed(self) -> int:
        """Return how many groups were trained on or discarded since the start of the run."""
        step = await self._reader.last(topic_of(StepReport))
        discarded = await self._reader.last(topic_of(GroupDiscarded))
        return max(
            decode_as(step, StepReport).groups_consumed if step else 0,
            decode_as(discarded, GroupDiscarded).groups_consumed if discarded else 0,
        )

    async def batch(self, report: StepReport) -> Batch:
        """Return the batch of a recorded step. Raises LearnerError if a rollout was deleted."""
        try:
            groups = [
                await self.group(
                    record,
                    [
                        decode_as(stored, Rollout)
                        for stored in await self._reader.read(record.sequences)
                    ],
                )
                for record in report.groups
            ]
        except JournalError as error:
            raise LearnerError(
                f"step {report.step} cannot be repeated: the journal no longer has its rollouts "
                f"({error}); start from a later checkpoint, and raise store.retain_gb in runs "
                "that must be replayed from the start"
            ) from error
        return await self.batch_of(
            report.step, groups, report.stage, Rates.reported(report.metrics)
        )

    async def batch_of(
        self, step: int, groups: Sequence[BatchGroup], stage: Stage, rates: Rates | None = None
    ) -> Batch:
        """Return the batch of a step with these groups.

        The first step of a warm start keeps the references of all tasks that the run opened with,
        so that the stage imitates every one of them and not only those of its few groups.
        """
        kept: list[Conversation] = []
        if step == 1 and stage == "warm_start":
            tasks = [task for task in await self._opening_tasks() if task.split == "train"]
            shown = [self.supervision.demonstration(task) for task in tasks]
            kept = [Conversation(token_ids=each[0], mask=each[1]) for each in shown if each]
        return Batch(step=step, groups=tuple(groups), rates=rates, kept=tuple(kept))

    async def group(self, record: TrainedGroup, rollouts: Sequence[Rollout]) -> BatchGroup:
        """Return a group of a batch, with its task's reference if the step imitates it."""
        task = await self._tasks.get(attempted(record.task_id, record.instance))
        reference = grammar = None
        if record.use == "imitation" and (shown := self.supervision.demonstration(task)):
            token_ids, mask = shown
            reference = Conversation(token_ids=tuple(token_ids), mask=tuple(mask))
        if record.use == "policy_gradient":
            grammar = await self.supervision.grammar(task)
        return BatchGroup(
            record=record,
            rollouts=tuple(rollouts),
            rewards=self.supervision.shape(rollouts),
            reference=reference,
            worthy=await self.supervision.select(task, record.group, rollouts),
            grammar=grammar,
        )


def _skills(task: Task) -> Sequence[str]:
    """Return a task's skills; those without any have one in common."""
    return task.skills or ("",)
