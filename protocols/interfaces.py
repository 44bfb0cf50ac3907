"""What one part may ask of another, whichever process it runs in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from protocols.control import PartStatus
from protocols.evolution import ModelCall
from protocols.generation import Generation, GenerationRequest, Grammar
from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take
from protocols.learning import PolicyVersion, ServedWeights
from protocols.rollouts import Rollout
from protocols.synthesis import Brief, Synthesis
from protocols.tasks import Task


class Store(Protocol):
    """The journal, from wherever one stands. Writes return when the record is durable."""

    async def append(self, request: Append) -> tuple[int, ...]:
        """Add records and return their sequences. Raises JournalFullError."""
        ...

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        """Return leased records, oldest first; empty where ``wait_s`` passed without any."""
        ...

    async def complete(self, request: Complete) -> tuple[int, ...]:
        """Finish records and return the outputs' sequences. Raises LeaseLostError."""
        ...

    async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
        """Return the newest sequence among ``topics`` (0 where there is none).

        Returns at once where it is greater than ``after``, else when it becomes so or when
        ``wait_s`` has passed. Empty ``topics`` means all.
        """
        ...

    async def checkpoint(self, path: Path) -> None:
        """Copy the journal, consistent and openable, into the new folder ``path``."""
        ...

    async def statistics(self) -> JournalStatistics:
        """Count what the journal holds."""
        ...


class Reader(Protocol):
    """Read access to the journal: the map itself on the writer's node, its actor elsewhere.

    Everything returned is a copy; nothing refers to the map.
    """

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        """Return these records in this order. Raises JournalError where one is gone."""
        ...

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records of ``topic`` beyond sequence ``after``."""
        ...

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the newest record of ``topic``, or None where there is none."""
        ...

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        """Return the oldest ``limit`` records that carry the index key."""
        ...


class Generator(Protocol):
    """Samples from the policy; many requests at a time, batched inside."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Continue the request's tokens. Raises GeneratorError where the engine broke."""
        ...

    async def release(self, conversation_id: str) -> None:
        """Forget what is cached of a conversation; unknown ones are no error."""
        ...

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Serve these weights from the next token on; requests in flight keep going.

        Returns what is served now, measured through the same weights that sample. Raises
        GeneratorError where the file differs from the version's digest; the old weights then stay.
        """
        ...

    def cpu_s(self) -> float:
        """CPU seconds of the engine so far: the model, sampling and batching."""
        ...

    async def close(self) -> None:
        """End the engine; requests in flight raise GeneratorError."""
        ...


class Supervision(Protocol):
    """What an environment tells the learner beyond the rewards of rollouts."""

    def shape(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Return the rewards of a whole group that are compared; the journal's stay as they are."""
        ...

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return (token ids, mask) of the task's reference as the policy would have produced it.

        Both have the same length; the mask is 1 on what the policy is to write. None if the
        environment's tasks have no references.
        """
        ...

    async def select(
        self, task: Task, group: int, rollouts: Sequence[Rollout]
    ) -> tuple[int, ...] | None:
        """Return which rollouts of the group with number ``group`` are worth imitating, by index.

        None if the environment does not choose: then the rewards do.
        """
        ...

    async def grammar(self, task: Task) -> Grammar | None:
        """Return what the policy's words were kept within; None if it wrote freely."""
        ...


class SimulatorService(Protocol):
    """One member of the simulator pool, in this process or behind a wire.

    Requests and answers are bytes, which only the environment reads.
    """

    async def answer(self, request: bytes) -> bytes:
        """Answer one request. Raises SimulatorError if the machine failed, and ConfigError."""
        ...

    @property
    def last_error(self) -> str:
        """What was wrong last; empty if nothing was."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds of simulators so far."""
        ...

    async def close(self) -> None:
        """End the simulators' processes."""
        ...


class TaskSource(Protocol):
    """Where the curriculum takes its tasks from; a function of the run's seed alone."""

    def pool(self) -> Sequence[Task]:
        """Return the tasks that the run starts with; empty where every group brings its own."""
        ...

    def draw(self, number: int) -> tuple[Task, bool]:
        """Return the task of the group ``number``, and whether the journal has yet to learn it."""
        ...

    def held_out(self) -> Sequence[Task]:
        """Return the tasks that only the evaluator may see, the same in every run."""
        ...

    def canaries(self, count: int) -> Sequence[Task]:
        """Return up to ``count`` tasks for the guard: neither trained on nor held out."""
        ...


class CallLog(Protocol):
    """The calls of a synthesizer's model for one signal: recorded, replayed, and paid for."""

    async def recorded(self, ordinal: int) -> ModelCall | None:
        """Return the call if the journal already has it, so that it need not be made again."""
        ...

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        """Reserve what the next call may take at most. Raises OverBudgetError."""
        ...

    async def note(self, call: ModelCall) -> None:
        """Record a call that was made; returns when it is durable."""
        ...


class Synthesizer(Protocol):
    """A model that turns a weakness into tasks; a new one for every swap."""

    @property
    def name(self) -> str:
        """What its candidates carry, for example ``policy@0`` or the endpoint's model."""
        ...

    async def check(self) -> None:
        """Make sure that the model answers. Raises EndpointError."""
        ...

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Reflect on ``brief``, explore its starts, and make candidates of what was found.

        A function of the brief and the recorded calls: with all of them recorded the same comes
        out, and the model is not asked. Raises EndpointError, AnswerError, OverBudgetError,
        SimulatorError or GeneratorError.
        """
        ...

    def cpu_s(self) -> float:
        """CPU seconds of a model in this process so far; 0 where it runs elsewhere."""
        ...

    async def close(self) -> None:
        """Let go of connections and engines."""
        ...


class Part(Protocol):
    """A long-lived member of the loop: reacts to records, emits records."""

    async def run(self) -> None:
        """Work until the run ends or ``stop`` is called; may be called again after a crash."""
        ...

    async def stop(self) -> None:
        """Finish what is in hand, keep it, and make ``run`` return."""
        ...

    def status(self) -> PartStatus:
        """Say what the part is doing."""
        ...


class ComputingPart(Part, Protocol):
    """A part with a model in its process."""

    def cpu_s(self) -> float:
        """Return the CPU seconds spent in the model so far; 0 if it runs elsewhere."""
        ...


class SupervisedPart(Protocol):
    """A part in a process of its own, as seen from the one that keeps it alive."""

    @property
    def name(self) -> str:
        """The actor's name."""
        ...

    async def run(self) -> None:
        """Let the part work; returns when it was stopped.

        Raises PartDiedError where its process ended, and whatever the part itself raised.
        """
        ...

    async def renew(self) -> None:
        """Replace the process by a fresh one."""
        ...

    async def stop(self) -> None:
        """Ask the part to stop; an unreachable part is stopped already."""
        ...

    async def status(self) -> PartStatus:
        """Return the part's status, or one that says that it does not answer."""
        ...

    async def cpu_s(self) -> float:
        """Return the CPU seconds that the part spent in a model or a simulator; 0 if unknown."""
        ...
