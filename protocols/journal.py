"""What crosses between the journal's one writer and everybody else.

The journal knows records: a topic, index keys and bytes. `Message` is what those bytes mean; its
tag is the topic.
"""

from typing import Annotated, Literal

import msgspec

from protocols.control import (
    PartFailed,
    RunContinued,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    Stalled,
    StopRequested,
)
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    EnvironmentRecord,
    Exploration,
    GroupSummary,
    ModelCall,
    ProbeReport,
    ProbeRequest,
    Signal,
    SignalSettled,
    SwapRefused,
    SwapRequested,
    SynthesizerSwapped,
)
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    Evaluation,
    GroupDiscarded,
    PolicyRegressed,
    PolicyVersion,
    StepReport,
    WeightsVerified,
    WeightSyncAlarm,
)
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task

Message = (
    RunStarted
    | RunResumed
    | RunFinished
    | StopRequested
    | RunPaused
    | RunContinued
    | Stalled
    | PartFailed
    | Task
    | RolloutRequest
    | Rollout
    | FailedRollout
    | GroupDiscarded
    | StepReport
    | PolicyVersion
    | WeightsVerified
    | WeightSyncAlarm
    | Checkpoint
    | Evaluation
    | CanaryScores
    | PolicyRegressed
    | GroupSummary
    | Signal
    | SignalSettled
    | Exploration
    | Candidate
    | EnvironmentRecord
    | CandidateVerdict
    | ProbeRequest
    | ProbeReport
    | ModelCall
    | SwapRequested
    | SynthesizerSwapped
    | SwapRefused
)
"""Everything that the journal holds."""

Durability = Literal["process", "power"]
"""What an acknowledged record survives.

``process``: the death of any process, `kill -9` included, and of all of them (the page cache keeps
it). A power cut or a kernel crash may leave the journal unreadable: take checkpoints.
``power``: also a power cut or a kernel crash, at the price of one disk flush a commit.
"""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way into the journal."""

    topic: str
    body: bytes

    keys: tuple[tuple[str, str], ...] = ()
    """(index, key) pairs under which the record can be found."""


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as the journal holds it."""

    sequence: Annotated[int, msgspec.Meta(ge=1)]
    """Global and gapless, counted from 1, in commit order."""

    topic: str
    time_ns: int
    """Unix time at which the writer put it into its transaction."""

    body: bytes


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Makes a write repeatable: the journal carries out each (producer, counter) once.

    A producer counts its writes upwards from 1, gives no number to two different writes (a refused
    one keeps its number) and has one write in flight at a time. A repeated write returns what the
    first one returned.
    """

    producer: str
    """Unique per process start."""

    counter: Annotated[int, msgspec.Meta(ge=1)]


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Add records."""

    records: tuple[Record, ...]
    receipt: Receipt


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """Lease the oldest records of ``topics`` that ``consumer`` has neither finished nor leased.

    ``held`` is what the member still works on; it renews those leases and gives up all others
    that the member had, so a lost answer loses nothing. A new incarnation of a member takes over
    what the old one held.
    """

    consumer: str
    """Shared by all members that split one stream of work, for example ``rollout``."""

    topics: tuple[str, ...]
    member: str
    """The seat, for example ``rollout-0``; one incarnation sits in it at a time."""

    incarnation: str
    """Unique per process start; the newest wins the seat."""

    held: tuple[int, ...]
    limit: Annotated[int, msgspec.Meta(ge=1)]
    lease_s: float
    wait_s: float
    """How long to wait for records where there are too few. 0 returns at once."""

    at_least: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Return no fewer before ``wait_s`` has passed: who cannot use less is not woken for it."""


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """Finish records and add what came of them, in one transaction.

    Raises LeaseLostError where ``consumer`` has already finished one of ``sequences``, or where
    another member holds it; then nothing is written.
    """

    consumer: str
    member: str
    incarnation: str
    sequences: tuple[int, ...]
    outputs: tuple[Record, ...]
    receipt: Receipt


class JournalStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What ``attach status`` shows of the journal."""

    last_sequence: int
    topics: dict[str, int]
    """Records per topic that are still held."""

    backlog: dict[str, int]
    """Records per consumer that are neither finished nor leased."""

    leased: dict[str, int]
    size_bytes: int
    commits: int
    flushes: int
    readers_cleared: int
