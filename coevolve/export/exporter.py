"""The interface between an environment and the export: how to write one table of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """One kind of table."""

    about: str
    file: str
    module: str
    """Module with the coroutine ``write(source, path, **options)``, which writes the table of a
    `coevolve.export.source.Source` and returns a description of its content. The module's docstring
    describes the columns. It is imported only when the table is exported."""

    options: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Keyword arguments of ``write``, each with its choices; the first is the default."""
