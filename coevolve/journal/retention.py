"""What retention deletes, and what each deletion waits for.

Beyond a budget of bytes the journal deletes the oldest records of the *evictable* topics, which are
rollouts. It never deletes one that a consumer of the topic has not finished.

Records of some other topics are *spent* once they are older than every rollout that is left, every
consumer of their topic has finished them, and nothing in `Needs` needs them. They go as well, but
for the newest of each topic (``kept``, by default `SPENT_KEPT`): those tell a part that reads the
topic without a snapshot how far the run has come. Whoever shows totals takes them from a snapshot
and the records after it.

Of the snapshots of a part the newest two stay. So the older one of them says from where on the part
reads again. A snapshot also names the records that its part still reads by their keys, such as the
tasks of the pool; what one of these two names stays.

A task that the loop made takes its lineage along: the candidate goes after the task, the signal
after its candidates, and what is about a candidate or a signal after these. So what is left of a
lineage shows what it leads to. All of a run's tables are then bounded: by the rollouts, by
``kept``, and by the pool.
"""

from collections.abc import Mapping
from typing import NamedTuple

import lmdb
import msgspec

from coevolve.journal.codec import topic_of, topics_of
from coevolve.journal.layout import Tables, index_key, sequence_of, topic_key, unpack_record
from protocols.control import StartMeasured, StateSnapshot, UnitsBegan
from protocols.evolution import (
    CallFailed,
    Candidate,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    ModelCall,
    ProbeReport,
    ProbeRequest,
    Signal,
    SignalSettled,
)
from protocols.learning import (
    CanaryScores,
    Checkpoint,
    EngineAsleep,
    Evaluation,
    GroupDiscarded,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    StepReport,
    TurnBegan,
    TurnEnded,
    WeightsVerified,
)
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Task

EVICTABLE = topics_of(Rollout, FailedRollout)
"""Topics whose oldest records go beyond the budget."""

SNAPSHOTS = topic_of(StateSnapshot)
SNAPSHOTS_KEPT = 2
"""Newest snapshots of each part that stay; a part that cannot use the last one tries the other."""

SPENT_KEPT = 1000

SPENT_EVERY = 1000
"""Records after which the journal looks again which ones are spent."""

SPENT_PER_RECORD = 2
"""Most records of a topic that the journal looks at for each new one, so that no commit takes
long."""

SPENT_AGAIN = 20_000
"""Records after which it looks again at those that something still needed."""


class Needs(NamedTuple):
    """What may still need the records of a topic."""

    snapshots: tuple[str, ...] = ()
    """Parts that fold the topic: both of their snapshots have to go beyond a record."""

    units: bool = False
    """Whether the records are about records that some consumer still has to finish."""

    older: tuple[str, ...] = ()
    """Topics whose records go first: none that is left may be older than a record that goes."""

    only: str = ""
    """Index of which a record needs a key to go at all; empty for all records of the topic."""

    after: tuple[tuple[str, str], ...] = ()
    """Indexes of the record and other ones: it goes once the other one has nothing under its key
    any more."""

    answered: tuple[tuple[str, str], ...] = ()
    """Indexes of the record and other ones: it goes only if the other one has something under its
    key, which the snapshots know."""

    @property
    def are_single(self) -> bool:
        """Whether each record has to be looked at, because there is more to it than its age."""
        return bool(self.only or self.after or self.answered)


SPENT: Mapping[str, Needs] = {
    topic_of(RolloutRequest): Needs(snapshots=("curriculum",)),
    topic_of(ProbeRequest): Needs(snapshots=("validator",)),
    topic_of(UnitsBegan): Needs(units=True),
    topic_of(GroupSummary): Needs(
        snapshots=("curriculum", "signals", "launcher's costs", "launcher's groups"),
        older=topics_of(RolloutRequest),
    ),
    topic_of(ModelCall): Needs(
        snapshots=("launcher's calls", "launcher's costs", "launcher's totals"), units=True
    ),
    topic_of(StepReport): Needs(
        snapshots=(
            *("curriculum", "learner's checkpoints", "learner's guard"),
            *("launcher's costs", "launcher's progress", "launcher's totals"),
        )
    ),
    topic_of(Task): Needs(
        snapshots=("curriculum", "launcher's costs", "launcher's totals", "validator"),
        only="tasks_by_signal",
        after=(
            ("tasks_by_id", "rollouts_by_task"),
            ("tasks_by_id", "steps_by_task"),
            ("tasks_by_id", "summaries_by_task"),
            ("tasks_by_id", "tasks_by_root"),
        ),
    ),
    topic_of(Candidate): Needs(
        snapshots=("curriculum", "launcher's totals", "validator"),
        after=(("candidates_by_signal", "tasks_by_signal"),),
        answered=(("candidates_by_id", "verdicts_by_candidate"),),
    ),
    topic_of(CandidateVerdict): Needs(
        snapshots=(
            *("curriculum", "launcher's costs", "launcher's progress", "launcher's totals"),
            "validator",
        ),
        after=(("verdicts_by_candidate", "candidates_by_id"),),
    ),
    topic_of(ProbeReport): Needs(
        snapshots=("launcher's costs", "validator"),
        after=(("probes_by_candidate", "candidates_by_id"),),
    ),
    topic_of(Signal): Needs(
        snapshots=("curriculum", "launcher's progress", "launcher's totals", "signals"),
        after=(("signals_by_id", "candidates_by_signal"),),
    ),
    topic_of(SignalSettled): Needs(
        snapshots=("curriculum", "launcher's costs", "launcher's progress", "launcher's totals"),
        after=(("settled_by_signal", "signals_by_id"),),
    ),
    topic_of(Exploration): Needs(after=(("explorations_by_signal", "signals_by_id"),)),
    topic_of(GroupDiscarded): Needs(
        snapshots=("curriculum", "launcher's progress"), older=topics_of(RolloutRequest)
    ),
    topic_of(PolicyVersion): Needs(snapshots=("learner's checkpoints",), only="passing_versions"),
    topic_of(Checkpoint): Needs(snapshots=("learner's checkpoints",)),
    topic_of(WeightsVerified): Needs(snapshots=("launcher's progress",)),
    topic_of(StartMeasured): Needs(snapshots=("launcher's progress",)),
    topic_of(ScoreRequest): Needs(units=True),
    topic_of(ScoreReport): Needs(units=True),
    topic_of(Evaluation): Needs(snapshots=("launcher's progress",)),
    topic_of(CanaryScores): Needs(snapshots=("launcher's progress", "learner's guard")),
    topic_of(TurnBegan): Needs(),
    topic_of(EngineAsleep): Needs(),
    topic_of(TurnEnded): Needs(),
    topic_of(CallFailed): Needs(),
}
"""Topics whose records can be spent.

A summary goes after the requests of its group, because a fold that knew of the requests alone would
wait for the group. So does the record that a group was discarded, because the audit asks what
became of each group that was requested. The versions that stay are version 0, those that are
scored, and those of the checkpoints that exist. The scores of single tasks stay while the evaluator
has not finished their version, whose record is older. The last probe of a candidate that is parked
is in the validator's snapshots, which name the candidate. A task goes after the rollouts, steps and
summaries about it, because who reads these reads the task. The validator counts summaries, too, but
they do not wait for it, because a run may have none. One that rested for long therefore knows of
fewer rollouts than there were, and has fewer candidates probed.
"""


class Retention(NamedTuple):
    """What to delete."""

    budget_bytes: int
    evictable: tuple[str, ...]
    spent: Mapping[str, Needs]
    kept: int = SPENT_KEPT
    """Newest records of each of these topics that stay."""


class _Snapshot(msgspec.Struct, tag=SNAPSHOTS):
    """What retention reads of a `protocols.control.StateSnapshot`, which may be large."""

    part: str
    through: int
    keeps: tuple[tuple[str, str], ...] | None = None
    """None in a snapshot of a version that named nothing, which says nothing here."""


_decoder = msgspec.msgpack.Decoder(_Snapshot)


class Covered(NamedTuple):
    """What the newest two snapshots of each part say; parts without two readable ones say none."""

    through: Mapping[str, int] = {}
    """Part -> the sequence through which both go."""

    keeps: frozenset[bytes] = frozenset()
    """Index entries of the records that some snapshot names."""


def covered(txn: "lmdb.Transaction[bytes]", tables: Tables) -> Covered:
    """Return what the newest snapshots say. Raises DamageError."""
    found: dict[str, list[_Snapshot]] = {}
    entry = topic_key(SNAPSHOTS)
    cursor = txn.cursor(tables.indexes)
    for key in cursor.iternext_dup() if cursor.set_key(entry) else ():
        value = memoryview(txn.get(key, b"", db=tables.records))
        try:
            snapshot = _decoder.decode(unpack_record(sequence_of(key), value, entry).body)
        except (msgspec.MsgspecError, ValueError):
            continue
        found.setdefault(snapshot.part, []).append(snapshot)
    newest = {part: of_part[-SNAPSHOTS_KEPT:] for part, of_part in found.items()}
    through = {
        part: min(each.through for each in of_part)
        for part, of_part in newest.items()
        if len(of_part) == SNAPSHOTS_KEPT and all(each.keeps is not None for each in of_part)
    }
    keeps = {
        index_key(*key)
        for of_part in newest.values()
        for each in of_part
        for key in each.keeps or ()
    }
    return Covered(through, frozenset(keeps))
