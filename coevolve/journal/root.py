"""The journal's root: one row that each transaction writes, with a sum over every table.

The row holds LMDB's number of the transaction, the last sequence, and for each table the number of
its rows and the sum of their checksums. The number shows a file that is older than its meta page
says. The sums show rows that are missing, left over or old, which the rows' own checksums cannot
show. The sum of `records` is that of the squared sequences, so that a transaction adds a range of
records at once.
"""

import struct

from coevolve.journal.checksums import MASK, DamageError

RECORDS, INDEXES, TOPICS, CONSUMERS, ACKS, SEATS, PRODUCERS, META = range(8)
"""Numbers of the tables, as in `coevolve.journal.layout.Tables`."""

COUNTED = META
_ROOT = struct.Struct(f"<QQ{2 * COUNTED}Q")


class Root:
    """The root of the transaction in progress."""

    __slots__ = ("counts", "last", "sums")

    def __init__(self) -> None:
        self.last = 0
        self.counts = [0] * COUNTED
        """Rows or entries of each table."""

        self.sums = [0] * COUNTED
        """Sum of the checksums of each table, modulo 2^64."""

    def pack(self, transaction: int) -> bytes:
        """Return the row's payload."""
        return _ROOT.pack(transaction, self.last, *self.counts, *self.sums)

    @classmethod
    def unpack(cls, payload: bytes, transaction: int) -> "Root":
        """Return the root in a payload. Raises DamageError if it is of another transaction."""
        written, last, *numbers = _ROOT.unpack(payload)
        if written != transaction:
            raise DamageError(
                f"the root needs to be of transaction {transaction} and is of {written}, so pages "
                "of the file are older than its head"
            )
        root = cls()
        root.last = last
        root.counts, root.sums = numbers[:COUNTED], numbers[COUNTED:]
        return root

    def replace(self, table: int, old: int | None, new: int) -> None:
        """Count a row with checksum ``new`` that replaces one with ``old``, or is a further one."""
        if old is None:
            self.counts[table] += 1
            old = 0
        self.sums[table] = (self.sums[table] + new - old) & MASK

    def add_records(self, first: int, last: int) -> None:
        """Count the records ``first`` to ``last``."""
        squares = first * first if first == last else _squares(last) - _squares(first - 1)
        self.change(RECORDS, last - first + 1, squares)
        self.last = last

    def change(self, table: int, rows: int, check: int) -> None:
        """Count ``rows`` more, whose checksums add up to ``check``; both may be negative."""
        self.counts[table] += rows
        self.sums[table] = (self.sums[table] + check) & MASK


def _squares(last: int) -> int:
    """Return the sum of the squares of 1 to ``last``."""
    return last * (last + 1) * (2 * last + 1) // 6
