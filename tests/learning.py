"""Rollouts, a journal and a small model for tests of the learner."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from coevolve.journal.codec import decode, encode
from coevolve.learning.sharded.ranks import ALONE
from coevolve.learning.sharded.shards import INDEX_FILE, read_shards
from protocols import columns
from protocols.errors import JournalError
from protocols.journal import (
    Append,
    Complete,
    JournalStatistics,
    Message,
    Receipt,
    Record,
    StoredRecord,
    Take,
)
from protocols.rollouts import FailedRollout, Rollout, Tokens
from protocols.tasks import Task
from tests.fakes import ScriptRenderer, tool_task

VOCABULARY = 64


def tokens(prompt: int, written: int, *, seed: int = 0, version: int = 0) -> Tokens:
    """Return a conversation of ``prompt`` given tokens and ``written`` tokens of the policy."""
    count = prompt + written
    return Tokens(
        token_ids=columns.int32((7 * seed + 3 * position) % 60 for position in range(count)),
        mask=columns.uint8([0] * prompt + [1] * written),
        logprobs=columns.float32([0.0] * prompt + [-4.0] * written),
        versions=columns.int32([-1] * prompt + [version] * written),
    )


def rollout(
    group: int,
    index: int,
    *,
    size: int,
    passed: bool = True,
    version: int = 0,
    imitable: bool = True,
) -> Rollout:
    """Return a rollout of the task ``t{group}``."""
    return Rollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=size,
        task_id=f"t{group}",
        seed=index,
        tokens=tokens(4 + index, 3 + group % 5, seed=group * 8 + index, version=version),
        actions=(),
        turns_passed=2 if passed else 1,
        turns_total=2,
        reward=float(passed),
        version_min=version,
        version_max=version,
        ended="finished" if passed else "wrong",
        wall_s=0.1,
        imitable=imitable,
    )


def failed(group: int, index: int, *, size: int) -> FailedRollout:
    """Return a rollout that failed because of the infrastructure."""
    return FailedRollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=size,
        task_id=f"t{group}",
        reason="the child died",
        tries=3,
    )


def small_model(folder: Path, seed: int = 0) -> Path:
    """A random Qwen3 model of a few thousand parameters."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def moments(folder: Path, teacher: str) -> dict[str, dict[str, torch.Tensor]]:
    """Return kind -> parameter -> momentum of a teacher in the checkpoint ``folder``."""
    index = json.loads((folder / INDEX_FILE).read_bytes())
    saved = {
        name: torch.zeros(each["size"], dtype=getattr(torch, each["dtype"]))
        for name, each in index.items()
    }
    read_shards(saved, folder, ALONE)
    found: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in saved.items():
        owner, _, name = key.partition(".")
        parameter, _, kind = name.rpartition(".")
        if owner == teacher:
            found.setdefault(kind, {})[parameter] = value
    return found


class ReferenceRenderer(ScriptRenderer):
    """Demonstrates the task ``tN`` by writing N, N + 1, N + 2 after two tokens of prompt."""

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        number = int(task.task_id.removeprefix("t"))
        return (1, 2, number, number + 1, number + 2), (0, 0, 1, 1, 1)


class MemoryJournal:
    """A `Store` and a `Reader` in memory; a new incarnation of a consumer gets unfinished work."""

    def __init__(self) -> None:
        self._records: list[StoredRecord] = []
        self._keys: list[tuple[tuple[str, str], ...]] = []
        self._gone: set[int] = set()
        self._grown = asyncio.Condition()
        self.finished: set[int] = set()
        self.before_complete: Callable[[Sequence[Message]], None] = lambda _: None
        """Called with the outputs before they are stored; it may raise an error like the
        journal."""

        self.before_append: Callable[[Sequence[Message]], None] = lambda _: None
        """The same for records that complete no work."""

    def add(self, *messages: Message) -> tuple[int, ...]:
        """Append without waiting."""
        return self._keep([encode(message) for message in messages])

    async def tell(self) -> None:
        """Wake the waiting callers, so that they see new records."""
        async with self._grown:
            self._grown.notify_all()

    def as_append(self) -> Append:
        """Return all records so far, to put them into another journal."""
        return Append(
            records=tuple(
                Record(topic=record.topic, body=record.body, keys=keys)
                for record, keys in zip(self._records, self._keys, strict=True)
            ),
            receipt=Receipt(producer="test", counter=1),
        )

    def all(self, kind: type[object]) -> list[object]:
        """Every message of a kind, in order."""
        return [m for m in map(decode, self._records) if isinstance(m, kind)]

    def evict(self, sequences: Sequence[int]) -> None:
        """Remove records, as retention does."""
        self._gone.update(sequences)

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until a condition holds at some write, or when a consumer starts to take."""
        async with self._grown:
            await asyncio.wait_for(self._grown.wait_for(so), 30)

    def _keep(self, records: Sequence[Record]) -> tuple[int, ...]:
        first = len(self._records) + 1
        for sequence, record in enumerate(records, start=first):
            self._records.append(
                StoredRecord(sequence=sequence, topic=record.topic, time_ns=0, body=record.body)
            )
            self._keys.append(record.keys)
        return tuple(range(first, len(self._records) + 1))

    async def append(self, request: Append) -> tuple[int, ...]:
        self.before_append([decode_record(record) for record in request.records])
        return await self._keep_and_tell(request.records)

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        def free() -> list[StoredRecord]:
            return [
                record
                for record in self._records
                if record.topic in request.topics
                and record.sequence not in self.finished
                and record.sequence not in request.held
            ][: request.limit]

        async with self._grown:
            self._grown.notify_all()
            try:
                await asyncio.wait_for(self._grown.wait_for(free), request.wait_s)
            except TimeoutError:
                return ()
            return free()

    async def complete(self, request: Complete) -> tuple[int, ...]:
        assert self.finished.isdisjoint(request.sequences), "finished twice"
        self.before_complete([decode_record(record) for record in request.outputs])
        self.finished.update(request.sequences)
        return await self._keep_and_tell(request.outputs)

    async def _keep_and_tell(self, records: Sequence[Record]) -> tuple[int, ...]:
        sequences = self._keep(records)
        await self.tell()
        return sequences

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        raise NotImplementedError

    async def checkpoint(self, path: Path) -> None:
        raise NotImplementedError

    async def statistics(self) -> JournalStatistics:
        raise NotImplementedError

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        if gone := self._gone.intersection(sequences):
            raise JournalError(f"record {min(gone)} was evicted")
        return [self._records[sequence - 1] for sequence in sequences]

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return [r for r in self._records[after:] if r.topic == topic][:limit]

    async def last(self, topic: str) -> StoredRecord | None:
        return next((r for r in reversed(self._records) if r.topic == topic), None)

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        return [
            record
            for record, keys in zip(self._records, self._keys, strict=True)
            if (index, key) in keys
        ][:limit]


def decode_record(record: Record) -> Message:
    """Return the message of a record before it is stored."""
    return decode(StoredRecord(sequence=1, topic=record.topic, time_ns=0, body=record.body))


def add_groups(journal: MemoryJournal, numbers: range, *, size: int = 4, version: int = 0) -> None:
    """Append tasks and groups: one in four fails completely, one in four passes completely."""
    for number in numbers:
        journal.add(tool_task("ls", task_id=f"t{number}"))
        wins = {0: 0, 2: size}.get(number % 4, size // 2)
        journal.add(
            *(
                rollout(number, index, size=size, passed=index < wins, version=version)
                for index in range(size)
            )
        )


def talking(*conversations: Tokens, index: int = 0, size: int = 4, passed: bool = True) -> Rollout:
    """Return a rollout of several conversations."""
    first, *further = conversations
    one = rollout(1, index, size=size, passed=passed)
    return msgspec.structs.replace(one, tokens=first, further=tuple(further))
