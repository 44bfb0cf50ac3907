"""Interfaces through which parts call each other, in one process or across processes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from protocols.control import PartStatus
from protocols.evolution import CallFailed, ModelCall
from protocols.generation import Generation, GenerationRequest, Grammar
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take
from protocols.learning import PolicyVersion, ServedWeights
from protocols.rollouts import Rollout
from protocols.synthesis import Brief, Synthesis
from protocols.tasks import Task


class Store(Protocol):
    """Write access to the journal from any process. Writes return when the record is durable."""

    async def append(self, request: Append) -> tuple[int, ...]:
        """Add records and return their sequences. Raises JournalFullError."""
        ...

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return leased records, oldest first; empty if none arrived within ``wait_s``."""
        ...

    async def complete(self, request: Complete) -> tuple[int, ...]:
        """Finish records and return the outputs' sequences. Raises LeaseLostError."""
        ...

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Return the newest sequence among ``topics``, or 0 if they have no records.

        Returns at once if that sequence is greater than ``after``. Otherwise returns when it
        becomes greater or after ``wait_s``. Empty ``topics`` means all topics.
        """
        ...

    async def checkpoint(self, path: Path) -> None:
        """Write a consistent copy of the journal, ready to open, to the new folder ``path``."""
        ...

    async def statistics(self) -> JournalStatistics:
        """Return the journal's record counts and sizes."""
        ...


class Reader(Protocol):
    """Read access to the journal: directly on the writer's node, through its actor elsewhere.

    All results are copies; none refers to the memory map.
    """

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError if one was deleted."""
        ...

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` after sequence ``after``."""
        ...

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None if it has none."""
        ...

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        ...


class Files(Protocol):
    """The run's folder, on whichever node a part runs. Paths are relative to the run's folder.

    One node has the run's folder itself. Parts on other nodes work with copies.
    """

    @property
    def folder(self) -> Path:
        """The run's folder, or this node's folder of copies."""
        ...

    async def fetch(self, path: str, *, keep: int = 0) -> Path:
        """Return the folder ``path`` on this node; copy it from the run's folder if necessary.

        With ``keep``, at most so many copies of its sibling folders stay on this node, the newest.
        Raises TransferError.
        """
        ...

    def fetch_now(self, path: str, *, keep: int = 0) -> Path:
        """Do the same without an event loop."""
        ...

    def assemble(self, path: str, write: Callable[[Path], None]) -> tuple[str, int]:
        """Make the folder ``path`` in the run's folder; return its digest and its size in bytes.

        ``write`` writes files into a folder of this node. Until it returns, processes on any node
        may `contribute` further files. The folder appears when all of them are there, unchanged and
        durable. Blocks. Raises CheckpointError and TransferError.
        """
        ...

    def contribute(self, path: str, write: Callable[[Path], None]) -> None:
        """Let ``write`` write files for a folder that another process assembles.

        Blocks until they are where the run's folder is. Raises TransferError, and what ``write``
        raises.
        """
        ...

    async def publish(self, path: str) -> None:
        """Copy the finished folder ``path`` of this node into the run's folder.

        Returns when it is durable there. Raises TransferError.
        """
        ...

    async def names(self, path: str) -> Sequence[str]:
        """Return the names in a folder of the run's folder; none if there is no such folder."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a folder from the run's folder and from this node."""
        ...


class Generator(Protocol):
    """Samples from the policy; it batches concurrent requests."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Continue the request's tokens. Raises GeneratorError if the engine failed."""
        ...

    async def release(self, conversation_id: str) -> None:
        """Drop the cache of a conversation; ignores unknown conversations."""
        ...

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Serve these weights from the next token on; requests in flight continue.

        Returns measurements of the weights that now sample. Raises GeneratorError if the file
        differs from the version's digest; the engine then keeps the old weights.
        """
        ...

    def cpu_s(self) -> float:
        """Return the engine's CPU seconds so far: model, sampling and batching."""
        ...

    async def close(self) -> None:
        """Stop the engine; requests in flight raise GeneratorError."""
        ...


@runtime_checkable
class ScoringGenerator(Generator, Protocol):
    """A generator that also says how likely given tokens are."""

    async def logprobs(self, rows: Sequence[Sequence[int]]) -> Sequence[Sequence[float]]:
        """Return the natural-log probabilities of each row's tokens, except its first.

        They are those of the weights that it serves, at temperature 1. Rows have at least two
        tokens. Raises GeneratorError if the engine failed.
        """
        ...


class Supervision(Protocol):
    """Training data that an environment gives the learner beyond the rewards of rollouts."""

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return a group's rewards for comparison; the journal keeps the originals."""
        ...

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return (token ids, mask) of the task's reference, written as the policy would write it.

        Both have the same length; the mask is 1 on the tokens that the policy should write. None if
        the environment's tasks have no references.
        """
        ...

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return the indices of the rollouts worth imitating in the group with number ``group``.

        None if the environment does not choose; the learner then uses the rewards.
        """
        ...

    async def grammar(self, task: Task) -> Grammar | None:
        """Return the grammar that restricted the policy's output; None if it was unrestricted."""
        ...


class SimulatorService(Protocol):
    """One member of the simulator pool, in this process or in another.

    Requests and answers are bytes that only the environment reads.
    """

    async def answer(self, request: bytes) -> bytes:
        """Answer one request. Raises SimulatorError if the simulator failed, and ConfigError."""
        ...

    @property
    def last_error(self) -> str:
        """Return the last error; empty if there was none."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds that simulators used so far."""
        ...

    async def close(self) -> None:
        """Stop the simulators' processes."""
        ...


class TaskSource(Protocol):
    """Source of the curriculum's tasks; depends only on the run's seed."""

    def pool(self) -> Sequence[Task]:
        """Return the tasks that the run starts with; empty if each group brings its own task."""
        ...

    def draw(self, number: int) -> tuple[Task, bool]:
        """Return the task of group ``number``, and whether the journal does not have it yet."""
        ...

    def held_out(self) -> Sequence[Task]:
        """Return the tasks that only the evaluator may see; they are the same in every run."""
        ...

    def canaries(self, count: int) -> Sequence[Task]:
        """Return up to ``count`` tasks for the guard, neither trained on nor held out."""
        ...


class CallLog(Protocol):
    """Records, replays and budgets a synthesizer's model calls for one signal."""

    async def recorded(self, ordinal: int) -> ModelCall | None:
        """Return the call if the journal has it; then the caller must not repeat it."""
        ...

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        """Reserve the maximum cost of the next call. Raises OverBudgetError."""
        ...

    async def note(self, call: ModelCall) -> None:
        """Record a completed call; returns when the record is durable."""
        ...

    async def failed(self, call: CallFailed) -> None:
        """Record a call that got no answer; returns when the record is durable."""
        ...


class Synthesizer(Protocol):
    """A model that turns a weakness into tasks; each swap creates a new one."""

    @property
    def name(self) -> str:
        """Name that its candidates carry, for example ``policy@0`` or the endpoint's model."""
        ...

    async def check(self) -> None:
        """Verify that the model answers in the form that the work needs.

        Raises EndpointError, AnswerError or GeneratorError.
        """
        ...

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Reflect on ``brief``, explore its starts, and turn the findings into candidates.

        The result depends only on the brief and the recorded calls. If all calls are recorded, it
        repeats the same result without asking the model. Raises EndpointError, AnswerError,
        OverBudgetError, SimulatorError or GeneratorError.
        """
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds of a model in this process so far; 0 if it runs elsewhere."""
        ...

    async def close(self) -> None:
        """Close connections and engines."""
        ...


class Part(Protocol):
    """A long-lived member of the loop, which consumes and emits records."""

    async def run(self) -> None:
        """Work until the run ends or ``stop`` is called; can be called again after a crash."""
        ...

    async def stop(self) -> None:
        """Finish and store the work in progress, and make ``run`` return."""
        ...

    def status(self) -> PartStatus:
        """Return the part's current status."""
        ...


class ComputingPart(Part, Protocol):
    """A part with a model in its process."""

    def cpu_s(self) -> float:
        """Return the CPU seconds spent in the model so far; 0 if it runs elsewhere."""
        ...


class SupervisedPart(Protocol):
    """A part in its own process, as its supervisor sees it."""

    @property
    def name(self) -> str:
        """The actor's name."""
        ...

    async def run(self) -> None:
        """Run the part; returns when the part was stopped.

        Raises PartDiedError if its process ended, and any error that the part itself raised.
        """
        ...

    async def renew(self) -> None:
        """Replace the process by a fresh one."""
        ...

    async def stop(self) -> None:
        """Ask the part to stop; an unreachable part counts as stopped."""
        ...

    async def end(self) -> None:
        """End the process for good; return when its name is free for another part."""
        ...

    async def status(self) -> PartStatus:
        """Return the part's status, or a status that says that the part does not answer."""
        ...

    async def cpu_s(self) -> float:
        """Return the CPU seconds that the part spent in a model or a simulator; 0 if unknown."""
        ...
