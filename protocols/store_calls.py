"""The calls of a `protocols.interfaces.Store` and `Reader` as messages, and their answers.

They are the same whether a socket or Ray carries them to the store's process.
"""

import msgspec

from protocols.journal import Append, Complete, JournalStatistics, StoredRecord, Take


class Wait(msgspec.Struct, frozen=True, kw_only=True, tag="wait"):
    """A call of `Store.wait`."""

    topics: tuple[str, ...]
    after: int
    wait_s: float


class Copy(msgspec.Struct, frozen=True, kw_only=True, tag="copy"):
    """A call of `Store.checkpoint`."""

    path: str


class Count(msgspec.Struct, frozen=True, kw_only=True, tag="count"):
    """A call of `Store.statistics`."""


class Read(msgspec.Struct, frozen=True, kw_only=True, tag="read"):
    """A call of `Reader.read`."""

    sequences: tuple[int, ...]


class Scan(msgspec.Struct, frozen=True, kw_only=True, tag="scan"):
    """A call of `Reader.scan`."""

    topic: str
    after: int
    limit: int


class Find(msgspec.Struct, frozen=True, kw_only=True, tag="find"):
    """A call of `Reader.find`, for records after a sequence."""

    index: str
    key: str
    after: int
    limit: int


class Last(msgspec.Struct, frozen=True, kw_only=True, tag="last"):
    """A call of `Reader.last`."""

    topic: str


ReadCall = Read | Scan | Find | Last

Call = Append | Take | Complete | Wait | Copy | Count | ReadCall
"""Everything that other processes ask of the store."""


class Sequences(msgspec.Struct, frozen=True, kw_only=True, tag="sequences"):
    """The answer to a write: the sequences of the records that it added."""

    sequences: tuple[int, ...]


class Newest(msgspec.Struct, frozen=True, kw_only=True, tag="newest"):
    """The answer to `Wait`."""

    sequence: int


class Copied(msgspec.Struct, frozen=True, kw_only=True, tag="copied"):
    """The answer to `Copy`."""


class Records(msgspec.Struct, frozen=True, kw_only=True, tag="records"):
    """The answer to `Take` and to reads: records, oldest first or in the requested order."""

    records: tuple[StoredRecord, ...]

    more: bool = False
    """Whether a read ended early to bound the answer's size; the caller asks for the rest."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The answer to a call that raised an error."""

    error: str
    """Name of its class in `protocols.errors`."""

    message: str


Answer = Sequences | Newest | Copied | Records | JournalStatistics | Refused
"""Every answer of the store."""


class SocketAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store's process serves its own node."""

    node: str
    """Ray's id of the node."""

    user: int
    """Id of the user who may connect."""

    name: str
    """Abstract name of the unix-domain socket."""
