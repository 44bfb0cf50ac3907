"""Snapshots of the parts' states, so that a part that starts reads only what came after one.

Guarantees:

- The state from a snapshot and the records after it equals the state from all records. A snapshot
  is made from the one before and the records since, not from the state of the part at work, which
  may have counted its own records before the journal had them.
- A snapshot is a record that follows the records in it. A power cut that undoes one of these undoes
  the snapshot as well.
- A snapshot of another form is ignored: of another version of this file, of other types, topics or
  settings. The part then reads its older one, or else all records.
- The journal keeps the newest two of each part (`coevolve.journal.transaction`), and the records
  that these name.

A state consists of pieces, for example the curriculum's schedule and its sampler. One may hold all
that it remembers in another, its ``piece``. A part whose environment brings a piece that is no
`Piece` has no snapshots.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import structlog

from coevolve.journal.codec import SNAPSHOTS_BY_PART, decode_as
from coevolve.journal.fold import fold
from protocols.control import StateSnapshot
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord

FORMAT = 3
"""Increased with every change of what a piece makes of its records, and of its state's form
that the JSON schema does not show."""

SPAN = 20_000
"""Records of any topic after which another snapshot is due."""

IndexKey = tuple[str, str]
"""An index and a key in it, as in `protocols.journal.Record`."""

log = structlog.get_logger()


@runtime_checkable
class Piece(Protocol):
    """A fold of the journal that can be written down and taken up again."""

    state: Any
    """The struct that the records are folded into. A snapshot holds it, and a new piece that takes
    it over continues from there."""

    @property
    def settings(self) -> object:
        """All settings on which the state depends, as JSON can hold them."""
        ...

    @property
    def keeps(self) -> Iterable[IndexKey]:
        """Index keys of the older records that the part still reads."""
        ...


class Folded(Protocol):
    """The state of a part."""

    @property
    def pieces(self) -> Sequence[object]:
        """What it consists of."""
        ...

    def fold(self, message: Message) -> None:
        """Add the journal's next record."""
        ...


class WholeState(msgspec.Struct):
    """A state that is its own only piece; no setting matters."""

    given: ClassVar[frozenset[str]] = frozenset()
    """Fields that a snapshot does not replace."""

    @property
    def state(self) -> Any:
        """Itself; if it is replaced, the other's fields are taken over."""
        return self

    @state.setter
    def state(self, other: Any) -> None:
        for name in frozenset(self.__struct_fields__) - self.given:
            setattr(self, name, getattr(other, name))

    @property
    def settings(self) -> object:
        """No setting matters."""
        return None

    @property
    def keeps(self) -> Iterable[IndexKey]:
        """It reads no older record."""
        return ()

    @property
    def pieces(self) -> Sequence[object]:
        return (self,)


StateT = TypeVar("StateT", bound=Folded)


class Snapshots(Generic[StateT]):
    """The snapshots of one part's state."""

    def __init__(
        self,
        reader: Reader,
        part: str,
        topics: Sequence[str],
        new: Callable[[], StateT],
        span: int = SPAN,
    ) -> None:
        """``new`` returns a state that is a fold of ``topics``, without any record."""
        self.reader = reader
        self._part = part
        self.topics = tuple(topics)
        """Topics of the fold."""

        self.new = new
        self._span = span
        self._number = 0
        self._through = 0

    async def restore(self) -> tuple[StateT, int]:
        """Return the state of the newest usable snapshot, and the sequence through which it goes.

        Without one it is a new state and 0.
        """
        state = self.new()
        pieces = _pieces(state)
        records = await self.reader.find(SNAPSHOTS_BY_PART, self._part) if pieces else ()
        snapshots = [each for each in map(self._read, records) if each is not None]
        self._number = max((each.number for each in snapshots), default=0)
        self._through = 0
        for snapshot in reversed(snapshots):
            if loaded := self._decoded(snapshot, pieces):
                for piece, kept in zip(pieces, loaded, strict=True):
                    piece.state = kept
                self._through = snapshot.through
                break
        return state, self._through

    async def folded(self) -> tuple[StateT, int]:
        """Return the state of all records, and the sequence through which it goes."""
        state, after = await self.restore()
        return state, await fold(self.reader, self.topics, state.fold, after)

    async def due(self, through: int) -> tuple[StateSnapshot, ...]:
        """Return a snapshot to write if one is due, now that the part is at sequence ``through``.

        Call `restore` before.
        """
        if through - self._through < self._span:
            return ()
        if not _pieces(self.new()):
            self._through = through
            return ()
        state, self._through = await self.folded()
        pieces = _pieces(state)
        self._number += 1
        return (
            StateSnapshot(
                part=self._part,
                number=self._number,
                through=self._through,
                form=self._form(pieces),
                states=tuple(msgspec.msgpack.encode(piece.state) for piece in pieces),
                keeps=tuple(key for piece in pieces for key in piece.keeps),
            ),
        )

    def _read(self, record: StoredRecord) -> StateSnapshot | None:
        try:
            return decode_as(record, StateSnapshot)
        except JournalError as error:
            log.warning("snapshot_ignored", part=self._part, reason=str(error))
            return None

    def _decoded(self, snapshot: StateSnapshot, pieces: Sequence[Piece]) -> list[Any]:
        """Return the pieces' states; none if the snapshot is of another form."""
        try:
            if snapshot.form == self._form(pieces):
                return [
                    msgspec.msgpack.decode(state, type=_kind(piece))
                    for piece, state in zip(pieces, snapshot.states, strict=True)
                ]
            reason = "it was written by another version or with other settings"
        except (msgspec.MsgspecError, ValueError) as error:
            reason = str(error)
        log.warning("snapshot_ignored", part=self._part, through=snapshot.through, reason=reason)
        return []

    def _form(self, pieces: Sequence[Piece]) -> str:
        """Return a digest of everything that a snapshot has to share with its reader."""
        kinds = [(msgspec.json.schema(_kind(piece)), piece.settings) for piece in pieces]
        form = msgspec.json.encode((FORMAT, sorted(self.topics), kinds), order="deterministic")
        return hashlib.sha256(form).hexdigest()


class Followed(Generic[StateT]):
    """A state that is kept up to date with the journal."""

    def __init__(self, snapshots: Snapshots[StateT]) -> None:
        """Read nothing yet."""
        self._snapshots = snapshots
        self._through: int | None = None
        self.state = snapshots.new()
        """The state as of the last `follow`."""

    async def follow(self) -> StateT:
        """Add the records since the last call, or since the newest snapshot; return the state."""
        snapshots = self._snapshots
        if self._through is None:
            self.state, self._through = await snapshots.restore()
        self._through = await fold(
            snapshots.reader, snapshots.topics, self.state.fold, self._through
        )
        return self.state

    async def due(self) -> tuple[StateSnapshot, ...]:
        """Return a snapshot to write if one is due. Call `follow` before."""
        return await self._snapshots.due(self._through or 0)


def _kind(piece: Piece) -> type[msgspec.Struct]:
    return piece.state.__class__


def _pieces(state: Folded) -> list[Piece]:
    """Return the pieces of a state; none if one of them is no `Piece`."""
    held = (getattr(each, "piece", each) for each in state.pieces)
    pieces = [piece for piece in held if isinstance(piece, Piece)]
    return pieces if len(pieces) == len(state.pieces) else []
