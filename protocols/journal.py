"""Messages between the journal's only writer and all other processes.

The journal stores records: a topic, index keys and bytes. The bytes decode to a `Message`, whose
tag is the topic.
"""

from typing import Annotated, Literal

import msgspec

from protocols.control import (
    CopyFailed,
    DeadLetter,
    FollowersFail,
    LetterAnswered,
    LetterRetried,
    NodesTooSmall,
    PartFailed,
    PartsRest,
    RolloutScaled,
    RunContinued,
    RunCopied,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    ScaleRefused,
    ScaleRequested,
    Stalled,
    StartMeasured,
    StateSnapshot,
    StopRequested,
    UnitsBegan,
)
from protocols.evolution import (
    CallFailed,
    Candidate,
    CandidateVerdict,
    EnvironmentRecord,
    Exploration,
    GroupSummary,
    ModelAnswers,
    ModelCall,
    ModelRests,
    ProbeReport,
    ProbeRequest,
    ReaderAnswers,
    ReaderRests,
    Signal,
    SignalSettled,
    SwapRefused,
    SwapRequested,
    SynthesizerSwapped,
)
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    EngineAsleep,
    Evaluation,
    GroupDiscarded,
    PolicyRegressed,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    StepReport,
    TurnBegan,
    TurnEnded,
    WeightsVerified,
    WeightSyncAlarm,
)
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task

Message = (
    RunStarted
    | RunResumed
    | RunFinished
    | StartMeasured
    | StopRequested
    | RunPaused
    | RunContinued
    | ScaleRequested
    | RolloutScaled
    | ScaleRefused
    | NodesTooSmall
    | Stalled
    | PartFailed
    | PartsRest
    | FollowersFail
    | UnitsBegan
    | DeadLetter
    | LetterRetried
    | LetterAnswered
    | RunCopied
    | CopyFailed
    | StateSnapshot
    | Task
    | RolloutRequest
    | Rollout
    | FailedRollout
    | GroupDiscarded
    | StepReport
    | PolicyVersion
    | WeightsVerified
    | WeightSyncAlarm
    | TurnBegan
    | EngineAsleep
    | TurnEnded
    | Checkpoint
    | ScoreRequest
    | ScoreReport
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
    | CallFailed
    | SwapRequested
    | SynthesizerSwapped
    | SwapRefused
    | ModelRests
    | ModelAnswers
    | ReaderRests
    | ReaderAnswers
)
"""All messages that the journal stores."""

Durability = Literal["process", "power"]
"""Failures that an acknowledged record survives.

``process``: the death of any or all processes, including `kill -9` (the page cache keeps the data).
After a power cut or a kernel crash the journal opens with its state at the last flush, of which
there is one a second: it lacks the newest records, and nothing else. ``power``: also a power cut or
a kernel crash, at the cost of one disk flush per commit.
"""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to be written to the journal."""

    topic: str
    body: bytes

    keys: tuple[tuple[str, str], ...] = ()
    """(index, key) pairs under which the record can be found."""


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record as the journal stores it."""

    sequence: Annotated[int, msgspec.Meta(ge=1)]
    """Global, without gaps, counted from 1 in commit order."""

    topic: str
    time_ns: int
    """Unix time at which the writer added it to its transaction."""

    body: bytes


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Makes a write idempotent: the journal executes each (producer, counter) once.

    A producer counts its writes from 1 and has one write in flight at a time. It never gives one
    number to two different writes; a refused write keeps its number. A repeated write returns the
    result of the first one.
    """

    producer: str
    """Unique per process start."""

    counter: Annotated[int, msgspec.Meta(ge=1)]


class Append(msgspec.Struct, frozen=True, kw_only=True, tag="append"):
    """A request to add records."""

    records: tuple[Record, ...]
    receipt: Receipt


class Take(msgspec.Struct, frozen=True, kw_only=True, tag="take"):
    """A request to lease the oldest records of ``topics`` that are free for ``consumer``.

    A record is free if the consumer has neither finished nor leased it.

    ``held`` lists the records that the member still works on. The journal renews these leases and
    releases the member's other leases, so a lost answer loses no record. A new incarnation of a
    member takes over the leases of the old one.
    """

    consumer: str
    """Shared by all members that split one stream of work, for example ``rollout``."""

    topics: tuple[str, ...]
    member: str
    """The member's name, for example ``rollout-0``; it has one incarnation at a time."""

    incarnation: str
    """Unique per process start; the newest incarnation replaces the older one."""

    held: tuple[int, ...]
    limit: Annotated[int, msgspec.Meta(ge=1)]
    lease_s: float
    wait_s: float
    """Seconds to wait for records if there are too few; 0 returns at once."""

    at_least: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Minimum number of records to return before ``wait_s`` has passed; fewer do not wake the
    consumer."""


class Complete(msgspec.Struct, frozen=True, kw_only=True, tag="complete"):
    """A request to finish records and add their outputs, in one transaction.

    Raises LeaseLostError if ``consumer`` has already finished one of ``sequences`` or another
    member holds it; then nothing is written.
    """

    consumer: str
    member: str
    incarnation: str
    sequences: tuple[int, ...]
    outputs: tuple[Record, ...]
    receipt: Receipt


class JournalStatistics(msgspec.Struct, frozen=True, kw_only=True, tag="statistics"):
    """The journal's numbers, as ``attach status`` shows them."""

    last_sequence: int
    topics: dict[str, int]
    """Number of stored records per topic."""

    backlog: dict[str, int]
    """Number of records per consumer that are neither finished nor leased."""

    leased: dict[str, int]
    size_bytes: int
    commits: int
    flushes: int
    readers_cleared: int
