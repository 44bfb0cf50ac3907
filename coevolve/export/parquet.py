"""Parquet files for `datasets`, pandas and verl, written row by row.

One row group is held in memory. This module needs the optional package pyarrow.
"""

# pyarrow is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 512
"""Rows per row group."""


class ParquetFile:
    """A table file that is open for writing."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema)
        self._rows: list[Mapping[str, Any]] = []
        self.count = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; columns that the row does not name become null."""
        self._rows.append(row)
        self.count += 1
        if len(self._rows) == ROWS:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows and the end of the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


@contextmanager
def writing(path: Path, columns: Mapping[str, Any]) -> Generator[ParquetFile]:
    """Open a new table with ``columns``, name -> pyarrow type; the end of the block closes it."""
    file = ParquetFile(path, pa.schema(list(columns.items())))
    try:
        yield file
    finally:
        file.close()
