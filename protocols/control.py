"""The run's own events, and the status that a live part reports."""

from typing import Literal

import msgspec

from protocols.numbers import Count


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag="run_started"):
    """The first record of every journal."""

    run_id: str
    config: str
    """The resolved config as JSON."""


class RunResumed(msgspec.Struct, frozen=True, kw_only=True, tag="run_resumed"):
    """The run was opened again."""

    run_id: str
    config: str


class RunFinished(msgspec.Struct, frozen=True, kw_only=True, tag="run_finished"):
    """All configured steps were taken and the last version was scored."""

    steps: int


class StartMeasured(msgspec.Struct, frozen=True, kw_only=True, tag="start_measured"):
    """What a start of the run, the first one or a resumption, has used so far.

    The newest record of a start counts. Training and CPU seconds cover the span from its first
    rollout to its last step or its stop, on the launcher's machine.
    """

    start_s: float
    """Wall-clock seconds from the command to the first rollout."""

    training_s: float
    """Wall-clock seconds."""

    model_cpu_s: float
    simulator_cpu_s: float
    rest_cpu_s: dict[str, float]
    """All other CPU seconds, by part; ``ray`` is the remainder that belongs to no part."""


class StopRequested(msgspec.Struct, frozen=True, kw_only=True, tag="stop_requested"):
    """An attached user asks the run to stop cleanly."""

    run_id: str


class RunPaused(msgspec.Struct, frozen=True, kw_only=True, tag="run_paused"):
    """No new work starts until `RunContinued`; work in progress is finished."""

    run_id: str


class RunContinued(msgspec.Struct, frozen=True, kw_only=True, tag="run_continued"):
    """The pause ended."""

    run_id: str


class ScaleRequested(msgspec.Struct, frozen=True, kw_only=True, tag="scale_requested"):
    """An attached user asks for another number of rollout engines.

    The run answers with `RolloutScaled` or `ScaleRefused`.
    """

    request_id: str
    actors: Count
    """Number of engines; with ``rollout.actors_per_node`` the maximum."""


Cause = Literal["start", "request", "nodes", "failure"]
"""What changed the rollout engines: the run's start, a user's request, nodes that joined or left
the cluster, or an engine that cannot work."""


class RolloutScaled(msgspec.Struct, frozen=True, kw_only=True, tag="rollout_scaled"):
    """The rollout engines of the run from now on; they start, or end, after this record."""

    cause: Cause
    actors: int
    """The number that the user wants, also after a resumption."""

    engines: tuple[str, ...]
    """Names of the parts, for example ``rollout-0``."""

    request_id: str = ""
    """The request that this answers; empty for other causes."""


class NodesTooSmall(msgspec.Struct, frozen=True, kw_only=True, tag="nodes_too_small"):
    """Nodes that should get rollout engines, and that have no room for one.

    The newest record of a start has all of them; a start without a record has none.
    """

    reasons: tuple[str, ...]
    """A sentence for each node; empty if every node has room."""


class ScaleRefused(msgspec.Struct, frozen=True, kw_only=True, tag="scale_refused"):
    """The answer to a request that the run cannot carry out; nothing changes."""

    request_id: str
    reason: str


class Stalled(msgspec.Struct, frozen=True, kw_only=True, tag="stalled"):
    """Nothing progressed for ``quiet_s`` seconds; lists what each part waits for."""

    quiet_s: float
    waiting: tuple[str, ...]
    """One sentence per part, for example ``learner waits for complete groups (5 of 8)``."""


class RunCopied(msgspec.Struct, frozen=True, kw_only=True, tag="run_copied"):
    """A complete copy of the run is at ``store.copies``."""

    number: int
    """Counted from 1, over all starts of the run."""

    step: int
    """The learner's last step in the copy."""

    records: int
    """Sequence of the last record in the copy's journal."""

    size_bytes: int
    """Size of all files of the copy."""

    sent_bytes: int
    """Size of the files that earlier copies did not have."""

    wall_s: float
    """Seconds that it took, without any delay of the run's parts."""


class CopyFailed(msgspec.Struct, frozen=True, kw_only=True, tag="copy_failed"):
    """The run could not be copied; it continues, and tries again after the next checkpoint."""

    reason: str


class PartFailed(msgspec.Struct, frozen=True, kw_only=True, tag="part_failed"):
    """A part died or raised an error and was restarted."""

    part: str
    reason: str


class PartsRest(msgspec.Struct, frozen=True, kw_only=True, tag="parts_rest"):
    """The optional parts that rest because they failed again and again; the run goes on.

    The newest record has all of them. A part that rests is tried again later.
    """

    causes: dict[str, str]
    """Part -> its last error; empty if all parts work."""


class FollowersFail(msgspec.Struct, frozen=True, kw_only=True, tag="followers_fail"):
    """The trackers that fail; they are tried again, and the run goes on.

    The newest record of a start has all of them; a start without a record has none.
    """

    causes: dict[str, str]
    """Tracker -> its last error; empty if all work."""


class UnitsBegan(msgspec.Struct, frozen=True, kw_only=True, tag="units_began"):
    """A member begins attempts at units of work, each of them a record that it took.

    Written before the attempts, so that one that kills the process is counted as well.
    """

    consumer: str
    member: str
    sequences: tuple[int, ...]
    """The records; one entry for each attempt."""

    put_back: tuple[int, ...] = ()
    """Records whose last attempt does not count, because it said nothing about them: the model that
    it needs does not answer."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, tag="dead_letter"):
    """A unit of work that raised errors, or killed its process, at each of its attempts.

    Written in the transaction that finishes the unit, which is not attempted again by itself.
    """

    consumer: str
    """Whose unit it was, for example ``rollout``."""

    sequence: int
    """The unit's record in the journal."""

    unit: str
    """The unit in a few words, for example ``rollout request: group_id g12, index 3``."""

    subject: str
    """The candidate or the signal by its id, or the group by its number; empty for other units."""

    attempts: int
    reason: str
    """The last error, in one sentence."""


class LetterRetried(msgspec.Struct, frozen=True, kw_only=True, tag="letter_retried"):
    """An attached user asks for further attempts at the unit of a dead letter."""

    letter: int
    """Sequence of the `DeadLetter`."""

    consumer: str
    sequence: int
    """As in the letter."""


class LetterAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="letter_answered"):
    """What came of a `LetterRetried`."""

    letter: int
    done: bool
    """Whether the unit is done now."""

    outcome: str
    """Its results, or the last error."""


class StateSnapshot(msgspec.Struct, frozen=True, kw_only=True, tag="state_snapshot"):
    """The state of a part, folded from the journal; the journal keeps the newest two of a part."""

    part: str
    number: int
    """Counted from 1, over all starts of the run."""

    through: int
    """The sequence of the last record in it."""

    form: str
    """Digest of the types, topics and settings that its reader needs to have as well."""

    states: tuple[bytes, ...]
    """The pieces of the state, each a msgpack struct."""

    keeps: tuple[tuple[str, str], ...] = ()
    """Index keys of the records that the part still reads by them; retention spares these."""


class PartStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one live actor, on request; never recorded in the journal."""

    part: str
    """The actor's name, for example ``rollout-0``."""

    pid: int | None
    """Id of its process; None if the actor did not answer."""

    waits_for: str
    """What it does or waits for, in a few words."""

    since_s: float
    """Seconds since ``waits_for`` changed."""

    mailbox: int
    """Records taken and not yet finished."""

    done: int
    """Records finished since the process started."""

    policy_version: int
    """The version it works with; -1 if none."""

    last_error: str
    """Last error since the process started; empty if none."""

    cpu_s: float = 0.0
    """CPU seconds that its process has used, without child processes."""

    memory_bytes: int = 0
    """Resident memory of its process, without child processes; 0 if it did not answer."""

    peak_bytes: int = 0
    """The most that its process has had so far; 0 if it did not answer."""
