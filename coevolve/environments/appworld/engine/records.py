"""Hashes of an app's records that do not depend on the order in which records were added.

The engine's own hash of a record covers all but its id, and so the ids of the records that it
points to. Those of records that an attempt adds depend on the order of its calls. So a link to such
a record counts as what that record holds, not as its id: a few rounds of hashing, each of which
replaces links by the hashes of the round before.

This module runs in the engine's process, with AppWorld on the import path and nothing of coevolve.
"""
# pyright: basic, reportMissingImports=false

import hashlib
import json
from typing import Any

from appworld.common.utils import answer_to_text, modelize

ROUNDS = 4
"""Longest chain of links, from one added record to the next, that is followed."""

Key = tuple[str, int]
"""A table and an id in it."""


class Records:
    """The records of one app; those that it has now are not new."""

    def __init__(self, models: dict[str, Any]) -> None:
        self._kinds = {name: kind for name, kind in models.items() if name != "SQLModel"}
        self._last = {name: self._rows(name, "MAX(id)")[0][0] or 0 for name in self._kinds}
        tables = {kind.__tablename__: name for name, kind in self._kinds.items()}
        self._links = {name: _links(kind, tables) for name, kind in self._kinds.items()}
        self._size = self._bytes()

    def grown(self) -> int:
        """Return by how many bytes the database has grown."""
        return self._bytes() - self._size

    def _bytes(self) -> int:
        connection = next(iter(self._kinds.values())).db.connection
        pages, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size")
        )
        return pages * size

    def hashes(self) -> dict[str, list[str]]:
        """Return a hash of each record, sorted, by table."""
        found = {name: dict(self._rows(name, "id, record_hash")) for name in self._kinds}
        linked = self._linked()
        if linked:
            labels = self._labelled(linked, found)
            for name, number in linked:
                found[name][number] = labels[name, number]
        return {name: sorted(map(str, held.values())) for name, held in found.items()}

    def _linked(self) -> dict[Key, dict[str, tuple[str, Any]]]:
        """Return the links of the records that point to new ones: column -> table, id or ids.

        A column with a mapping counts as one column for each of its keys.
        """
        found: dict[Key, dict[str, tuple[str, Any]]] = {}
        for name, links in self._links.items():
            columns = "".join(f', "{column}"' for column in links)
            for number, *values in self._rows(name, f"id{columns}") if links else ():
                told = self._told(links, values)
                if any(
                    self._is_new(table, each) for table, ids in told.values() for each in _all(ids)
                ):
                    found[name, number] = told
        return found

    def _told(self, links: dict[str, str], values: list[Any]) -> dict[str, tuple[str, Any]]:
        found: dict[str, tuple[str, Any]] = {}
        for (column, table), stored in zip(links.items(), values, strict=True):
            value = json.loads(stored) if isinstance(stored, str) else stored
            if isinstance(value, dict):
                for key, each in sorted(value.items()):
                    found[f"{column}.{key}"] = (modelize(key.removesuffix("_id")), each)
            else:
                found[column] = (table, value)
        return found

    def _labelled(
        self, linked: dict[Key, dict[str, tuple[str, Any]]], found: dict[str, dict[int, Any]]
    ) -> dict[Key, str]:
        contents = {key: self._content(key) for key in linked}
        labels = contents
        for _ in range(ROUNDS):
            labels = {
                key: _hash([contents[key], self._pointed(links, labels, found)])
                for key, links in linked.items()
            }
        return labels

    def _pointed(
        self,
        links: dict[str, tuple[str, Any]],
        labels: dict[Key, str],
        found: dict[str, dict[int, Any]],
    ) -> list[Any]:
        def label(table: str, number: Any) -> Any:
            if not self._is_new(table, number):
                return number
            return labels.get((table, number)) or found[table].get(number)

        return [
            [column, *(label(table, each) for each in _all(ids))]
            for column, (table, ids) in links.items()
        ]

    def _content(self, key: Key) -> str:
        """Return the hash of what a record holds besides its links."""
        name, number = key
        kind = self._kinds[name]
        columns = [
            each.name
            for each in kind.__table__.columns
            if each.name not in ("id", "record_hash") and each.name not in self._links[name]
        ]
        quoted = ", ".join(f'"{column}"' for column in columns)
        return _hash(list(self._rows(name, quoted or "1", number)[0]))

    def _rows(self, name: str, columns: str, number: int | None = None) -> list[tuple[Any, ...]]:
        kind = self._kinds[name]
        query = f'SELECT {columns} FROM "{kind.__tablename__}"'  # noqa: S608, names of the engine's
        if number is None:
            return kind.db.connection.execute(query).fetchall()
        return kind.db.connection.execute(f"{query} WHERE id = ?", (number,)).fetchall()

    def _is_new(self, table: str, number: Any) -> bool:
        return isinstance(number, int) and table in self._last and number > self._last[table]


def answer_hash(models: dict[str, Any]) -> str:
    """Return a hash of the answer and the status of the task, equal for answers that match."""
    task = models["Task"].first()
    try:
        answer = answer_to_text(task.answer and json.loads(task.answer))
    except (TypeError, ValueError, OverflowError, RecursionError):
        answer = str(task.answer)
    return _hash([answer, task.status])


def _links(kind: Any, tables: dict[str, str]) -> dict[str, str]:
    """Return the tables that the columns of a table point to, those with lists of ids included.

    The keys of a mapping say themselves which tables they point to, so that its table is empty.
    """
    found: dict[str, str] = {}
    names = kind.field_mapping()
    for column in kind.__table__.columns:
        for key in column.foreign_keys:
            found[column.name] = tables[key.column.table.name]
        if column.name.endswith("_ids"):
            model = modelize(names.get(column.name, column.name).removesuffix("_ids"))
            if model in tables.values():
                found[column.name] = model
        described = kind.__fields__.get(names.get(column.name, column.name))
        if described is not None and described.outer_type_ is dict:
            found[column.name] = ""
    return found


def _all(ids: Any) -> list[Any]:
    return ids if isinstance(ids, list) else [ids]


def _hash(content: list[Any]) -> str:
    told = json.dumps(content, default=str, sort_keys=True)
    return hashlib.sha256(told.encode(errors="replace")).hexdigest()
