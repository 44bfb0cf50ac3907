"""Encodes messages as records and decodes them: topic = the message's tag, body = its msgpack.

Decoding skips unknown fields and uses the defaults of missing ones, so small changes of messages
keep old journals readable.

Indexes for `Reader.find`:

| index                  | messages               | key                                      |
|------------------------|------------------------|------------------------------------------|
| `TASKS_BY_ID`          | Task                   | `task_id`                                |
| `TASKS_BY_SIGNAL`      | Task, synthesized      | `signal_id`                              |
| `TASKS_BY_ROOT`        | Task that continues a rollout | `root`                            |
| `RECORDS_BY_KEY`       | EnvironmentRecord      | `kind` and `key`: see `record_key`       |
| `REQUESTS_BY_GROUP`    | RolloutRequest         | `group_id`                               |
| `ROLLOUTS_BY_TASK`     | Rollout, FailedRollout | `task_id`                                |
| `ROLLOUTS_BY_GROUP`    | Rollout, FailedRollout | `group_id`                               |
| `ROLLOUTS_BY_VERSION`  | Rollout                | `version_min`                            |
| `ROLLOUTS_BY_OUTCOME`  | Rollout with an outcome key | `outcome_key`                       |
| `DISCARDS_BY_GROUP`    | GroupDiscarded         | `group_id`                               |
| `STEPS_BY_NUMBER`      | StepReport             | `step`                                   |
| `STEPS_BY_TASK`        | StepReport             | `task_id` of each group                  |
| `VERSIONS_BY_NUMBER`   | PolicyVersion          | `version`                                |
| `PASSING_VERSIONS`     | PolicyVersion from 1 on that is not kept for scores | `version`   |
| `CHECKPOINTS_BY_STEP`  | Checkpoint             | `step`                                   |
| `REQUESTED_SCORES_BY_VERSION` | ScoreRequest    | `version`                                |
| `EVALUATIONS_BY_VERSION` | Evaluation           | `version`                                |
| `SIGNALS_BY_ID`        | Signal                 | `signal_id`                              |
| `SIGNALS_BY_KIND`      | Signal                 | `kind`                                   |
| `SIGNALS_BY_TASK`      | Signal about a task    | `task_id`                                |
| `SUMMARIES_BY_TASK`    | GroupSummary           | `root`                                   |
| `SETTLED_BY_SIGNAL`    | SignalSettled          | `signal_id`                              |
| `EXPLORATIONS_BY_ID`   | Exploration            | `exploration_id`                         |
| `EXPLORATIONS_BY_SIGNAL` | Exploration          | `signal_id`                              |
| `CANDIDATES_BY_ID`     | Candidate              | `candidate_id`                           |
| `CANDIDATES_BY_SIGNAL` | Candidate              | `signal_id`                              |
| `VERDICTS_BY_CANDIDATE` | CandidateVerdict      | `candidate_id`                           |
| `PROBES_BY_CANDIDATE`  | ProbeReport            | `candidate_id`                           |
| `CALLS_BY_SIGNAL`      | ModelCall              | `signal_id`                              |
| `ANSWERS_BY_REQUEST`   | SynthesizerSwapped, SwapRefused | `request_id`                    |
|                        | ScaleRefused, RolloutScaled on request | `request_id`             |
| `SNAPSHOTS_BY_PART`    | StateSnapshot          | `part`                                   |

Keys contain numbers as decimal text.
"""

from collections.abc import Mapping
from typing import TypeVar, cast, get_args

import msgspec

from protocols.control import RolloutScaled, ScaleRefused, StateSnapshot
from protocols.errors import ContractError, JournalError
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    EnvironmentRecord,
    Exploration,
    GroupSummary,
    ModelCall,
    OnTask,
    ProbeReport,
    Signal,
    SignalSettled,
    SwapRefused,
    SynthesizerSwapped,
)
from protocols.journal import Message, Record, StoredRecord
from protocols.learning import (
    Checkpoint,
    Evaluation,
    GroupDiscarded,
    PolicyVersion,
    ScoreRequest,
    StepReport,
    require_inside,
)
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Continued, Synthesized, Task

TASKS_BY_ID = "tasks_by_id"
TASKS_BY_SIGNAL = "tasks_by_signal"
TASKS_BY_ROOT = "tasks_by_root"
RECORDS_BY_KEY = "records_by_key"
REQUESTS_BY_GROUP = "requests_by_group"
ROLLOUTS_BY_TASK = "rollouts_by_task"
ROLLOUTS_BY_GROUP = "rollouts_by_group"
ROLLOUTS_BY_VERSION = "rollouts_by_version"
ROLLOUTS_BY_OUTCOME = "rollouts_by_outcome"
DISCARDS_BY_GROUP = "discards_by_group"
STEPS_BY_NUMBER = "steps_by_number"
STEPS_BY_TASK = "steps_by_task"
VERSIONS_BY_NUMBER = "versions_by_number"
PASSING_VERSIONS = "passing_versions"
CHECKPOINTS_BY_STEP = "checkpoints_by_step"
REQUESTED_SCORES_BY_VERSION = "requested_scores_by_version"
EVALUATIONS_BY_VERSION = "evaluations_by_version"
SIGNALS_BY_ID = "signals_by_id"
SIGNALS_BY_KIND = "signals_by_kind"
SIGNALS_BY_TASK = "signals_by_task"
SUMMARIES_BY_TASK = "summaries_by_task"
SETTLED_BY_SIGNAL = "settled_by_signal"
EXPLORATIONS_BY_ID = "explorations_by_id"
EXPLORATIONS_BY_SIGNAL = "explorations_by_signal"
CANDIDATES_BY_ID = "candidates_by_id"
CANDIDATES_BY_SIGNAL = "candidates_by_signal"
VERDICTS_BY_CANDIDATE = "verdicts_by_candidate"
PROBES_BY_CANDIDATE = "probes_by_candidate"
CALLS_BY_SIGNAL = "calls_by_signal"
ANSWERS_BY_REQUEST = "answers_by_request"
SNAPSHOTS_BY_PART = "snapshots_by_part"

Kind = TypeVar("Kind", bound=msgspec.Struct)

_encoder = msgspec.msgpack.Encoder()


def topic_of(kind: type[msgspec.Struct]) -> str:
    return cast("str", kind.__struct_config__.tag)


def topics_of(*kinds: type[Message]) -> tuple[str, ...]:
    """Return the topics of several message types, for example for `coevolve.journal.fold`."""
    return tuple(map(topic_of, kinds))


TOPICS = topics_of(*get_args(Message))
"""Every topic that the journal may hold."""

_decoders = {topic_of(kind): msgspec.msgpack.Decoder(kind) for kind in get_args(Message)}


def encode(message: Message) -> Record:
    """Return ``message`` as a record.

    Raises ContractError if the record could not be decoded, because a field has a value of a wrong
    type.
    """
    topic = topic_of(type(message))
    try:
        body = _encoder.encode(message)
        _decoders[topic].decode(body)
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError) as error:
        raise ContractError(
            f"a {topic} cannot be recorded: {error}; fix the code that made the value"
        ) from error
    return Record(topic=topic, body=body, keys=_keys(message))


def decode(record: StoredRecord) -> Message:
    """Return the message in ``record``. Raises JournalError if it cannot be decoded."""
    decoder = _decoders.get(record.topic)
    if decoder is None:
        raise JournalError(
            f"record {record.sequence} has topic {record.topic!r}, which this version does not "
            f"know ({', '.join(TOPICS)}); read the journal with the version that wrote it"
        )
    try:
        return _inside(cast("Message", decoder.decode(record.body)))
    except (msgspec.MsgspecError, ValueError) as error:
        raise JournalError(
            f"record {record.sequence} of topic {record.topic!r} cannot be read: {error}; read "
            "the journal with the version that wrote it"
        ) from error


def _inside(message: Message) -> Message:
    """Return a message whose weights, if it has any, are in the run. Raises ValueError."""
    if isinstance(message, PolicyVersion):
        require_inside(message.path, "policy version")
    return message


def decode_as(record: StoredRecord, kind: type[Kind]) -> Kind:
    """Return the message in ``record``, which must be a ``kind``. Raises JournalError."""
    message = decode(record)
    if not isinstance(message, kind):
        raise JournalError(
            f"record {record.sequence} needs topic {topic_of(kind)!r} and has {record.topic!r}; "
            "the sequence belongs to another record"
        )
    return message


def record_key(kind: str, key: str) -> str:
    """Return the index key of an environment's record."""
    return f"{kind}/{key}"


def _keys(message: Message) -> tuple[tuple[str, str], ...]:
    plain = _FIELDS.get(type(message), {})
    keys = tuple((index, str(getattr(message, field))) for index, field in plain.items())
    match message:
        case Rollout(outcome_key=key) if key:
            return (*keys, (ROLLOUTS_BY_OUTCOME, key))
        case Task(origin=Synthesized(signal_id=signal_id)):
            return (*keys, (TASKS_BY_SIGNAL, signal_id))
        case Task(origin=Continued(root=root)):
            return (*keys, (TASKS_BY_ROOT, root))
        case StepReport(groups=groups):
            tasks = dict.fromkeys(group.task_id for group in groups)
            return (*keys, *((STEPS_BY_TASK, task_id) for task_id in tasks))
        case Signal(about=OnTask(task_id=task_id)):
            return (*keys, (SIGNALS_BY_TASK, task_id))
        case RolloutScaled(request_id=request_id) if request_id:
            return ((ANSWERS_BY_REQUEST, request_id),)
        case PolicyVersion(version=version, kept=False) if version:
            return (*keys, (PASSING_VERSIONS, str(version)))
        case EnvironmentRecord(kind=kind, key=key):
            return ((RECORDS_BY_KEY, record_key(kind, key)),)
        case _:
            return keys


_OF_CANDIDATE = {CANDIDATES_BY_ID: "candidate_id", CANDIDATES_BY_SIGNAL: "signal_id"}
_OF_ROLLOUT = {ROLLOUTS_BY_TASK: "task_id", ROLLOUTS_BY_GROUP: "group_id"}
_OF_REQUEST = {ANSWERS_BY_REQUEST: "request_id"}

_FIELDS: Mapping[type[Message], Mapping[str, str]] = {
    Rollout: {**_OF_ROLLOUT, ROLLOUTS_BY_VERSION: "version_min"},
    FailedRollout: _OF_ROLLOUT,
    RolloutRequest: {REQUESTS_BY_GROUP: "group_id"},
    GroupDiscarded: {DISCARDS_BY_GROUP: "group_id"},
    StepReport: {STEPS_BY_NUMBER: "step"},
    PolicyVersion: {VERSIONS_BY_NUMBER: "version"},
    Checkpoint: {CHECKPOINTS_BY_STEP: "step"},
    ScoreRequest: {REQUESTED_SCORES_BY_VERSION: "version"},
    Evaluation: {EVALUATIONS_BY_VERSION: "version"},
    Task: {TASKS_BY_ID: "task_id"},
    GroupSummary: {SUMMARIES_BY_TASK: "root"},
    Signal: {SIGNALS_BY_ID: "signal_id", SIGNALS_BY_KIND: "kind"},
    SignalSettled: {SETTLED_BY_SIGNAL: "signal_id"},
    Exploration: {EXPLORATIONS_BY_ID: "exploration_id", EXPLORATIONS_BY_SIGNAL: "signal_id"},
    ModelCall: {CALLS_BY_SIGNAL: "signal_id"},
    Candidate: _OF_CANDIDATE,
    CandidateVerdict: {VERDICTS_BY_CANDIDATE: "candidate_id"},
    ProbeReport: {PROBES_BY_CANDIDATE: "candidate_id"},
    SynthesizerSwapped: _OF_REQUEST,
    SwapRefused: _OF_REQUEST,
    ScaleRefused: _OF_REQUEST,
    StateSnapshot: {SNAPSHOTS_BY_PART: "part"},
}
"""Message type -> index -> the field that is the key; `_keys` adds keys that are not fields."""
