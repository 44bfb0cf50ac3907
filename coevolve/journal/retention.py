"""What retention deletes, and what each deletion waits for.

Beyond a budget of bytes the journal deletes the oldest records of the *evictable* topics, which are
rollouts. It never deletes one that a consumer of the topic has not finished.

Records of some other topics are *spent* once they are older than every rollout that is left, every
consumer of their topic has finished them, and nothing in `Needs` needs them. They go as well, but
for the newest `SPENT_KEPT` of each topic: those tell a part that reads the topic without a snapshot
how far the run has come. Whoever shows totals takes them from a snapshot and the records after it.

Of the snapshots of a part the newest two stay. So the older one of them says from where on the part
reads again.
"""

from collections.abc import Mapping
from typing import NamedTuple

import lmdb
import msgspec

from coevolve.journal.layout import Tables, sequence_of, topic_key, unpack_record

EVICTABLE = ("rollout", "failed_rollout")
"""Topics whose oldest records go beyond the budget."""

SNAPSHOTS = "state_snapshot"
SNAPSHOTS_KEPT = 2
"""Newest snapshots of each part that stay; a part that cannot use the last one tries the other."""

SPENT_KEPT = 1000

SPENT_EVERY = 1000
"""Records after which the journal looks again which ones are spent."""

SPENT_PER_RECORD = 2
"""Most spent records that go for each new one, so that no commit takes long."""


class Needs(NamedTuple):
    """What may still need the records of a topic."""

    snapshots: tuple[str, ...] = ()
    """Parts that fold the topic: both of their snapshots have to go beyond a record."""

    units: bool = False
    """Whether the records are about records that some consumer still has to finish."""

    older: tuple[str, ...] = ()
    """Topics whose records go first: none that is left may be older than a record that goes."""


SPENT: Mapping[str, Needs] = {
    "rollout_request": Needs(snapshots=("curriculum",)),
    "probe_request": Needs(snapshots=("validator",)),
    "units_began": Needs(units=True),
    "group_summary": Needs(
        snapshots=("curriculum", "signals", "launcher's costs", "launcher's groups"),
        older=("rollout_request",),
    ),
    "model_call": Needs(
        snapshots=("launcher's calls", "launcher's costs", "launcher's totals"), units=True
    ),
}
"""Topics whose records can be spent.

A summary goes after the requests of its group, because a fold that knew of the requests alone would
wait for the group. The last probe of a candidate that is parked is in the validator's snapshots.
"""


class Retention(NamedTuple):
    """What to delete."""

    budget_bytes: int
    evictable: tuple[str, ...]
    spent: Mapping[str, Needs]


class _Snapshot(msgspec.Struct, tag=SNAPSHOTS):
    """What retention reads of a `protocols.control.StateSnapshot`, which may be large."""

    part: str
    through: int


_decoder = msgspec.msgpack.Decoder(_Snapshot)


def covered(txn: "lmdb.Transaction[bytes]", tables: Tables) -> dict[str, int]:
    """Return, by part, the sequence through which each of its newest two snapshots goes.

    A part without two readable snapshots is left out. Raises DamageError.
    """
    found: dict[str, list[int]] = {}
    entry = topic_key(SNAPSHOTS)
    cursor = txn.cursor(tables.indexes)
    for key in cursor.iternext_dup() if cursor.set_key(entry) else ():
        value = memoryview(txn.get(key, b"", db=tables.records))
        try:
            snapshot = _decoder.decode(unpack_record(sequence_of(key), value, entry).body)
        except (msgspec.MsgspecError, ValueError):
            continue
        found.setdefault(snapshot.part, []).append(snapshot.through)
    return {
        part: min(through[-SNAPSHOTS_KEPT:])
        for part, through in found.items()
        if len(through) >= SNAPSHOTS_KEPT
    }
