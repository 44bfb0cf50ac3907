"""The journal's root: one row that each transaction writes, with a sum over every table.

The row holds LMDB's number of the transaction, the last sequence, and for each table the number of
its rows and the sum of their checksums. The number shows a file that is older than its meta page
says. The sums show rows that are missing, left over or old, which the rows' own checksums cannot
show. The sum of `records` is that of the squared sequences, so that a transaction adds a range of
records at once.
"""

from array import array

from coevolve.journal.checksums import MASK, DamageError

RECORDS, INDEXES, MAIN, CONSUMERS, ACKS, SEATS, PRODUCERS = range(7)
"""Numbers of the tables, as in `coevolve.journal.layout.Tables`."""

COUNTED = PRODUCERS + 1
"""Number of tables that the root counts; of `main` it counts the topics' rows."""

_LAST, _COUNTS = 1, 2
_SUMS = _COUNTS + COUNTED
_NUMBERS = _SUMS + COUNTED


class Root:
    """The root of the transaction in progress."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("Q", bytes(8 * _NUMBERS))
        """Transaction, last sequence, counts, sums."""

    @property
    def last(self) -> int:
        return self._numbers[_LAST]

    def count(self, table: int) -> int:
        """Return the number of rows or entries of a table."""
        return self._numbers[_COUNTS + table]

    def sum(self, table: int) -> int:
        """Return the sum of the checksums of a table, modulo 2^64."""
        return self._numbers[_SUMS + table]

    def pack(self, transaction: int) -> bytes:
        """Return the row's payload."""
        self._numbers[0] = transaction
        return self._numbers.tobytes()

    @classmethod
    def unpack(cls, payload: bytes, transaction: int) -> "Root":
        """Return the root in a payload. Raises DamageError if it is of another transaction."""
        root = cls()
        root._numbers = array("Q", payload)
        if (found := root._numbers[0]) != transaction:
            raise DamageError(
                f"the root needs to be of transaction {transaction} and is of {found}, so pages "
                "of the file are older than its head"
            )
        return root

    def replace(self, table: int, old: int | None, new: int) -> None:
        """Count a row with checksum ``new`` that replaces one with ``old``, or is a further one."""
        if old is None:
            self.change(table, 1, new)
            return
        self._numbers[_SUMS + table] = (self._numbers[_SUMS + table] + new - old) & MASK

    def add_records(self, last: int) -> None:
        """Count the records after the last one that was assigned, up to ``last``."""
        before = self._numbers[_LAST]
        squares = last * last if last == before + 1 else _squares(last) - _squares(before)
        self.change(RECORDS, last - before, squares)
        self._numbers[_LAST] = last

    def assign(self, last: int) -> None:
        """Note the last sequence that was assigned."""
        self._numbers[_LAST] = last

    def change(self, table: int, rows: int, check: int) -> None:
        """Count ``rows`` more, whose checksums add up to ``check``; both may be negative."""
        numbers = self._numbers
        numbers[_COUNTS + table] += rows
        numbers[_SUMS + table] = (numbers[_SUMS + table] + check) & MASK


def _squares(last: int) -> int:
    """Return the sum of the squares of 1 to ``last``."""
    return last * (last + 1) * (2 * last + 1) // 6
