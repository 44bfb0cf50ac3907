"""What an environment brings for an export: how a table is written of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """One kind of table."""

    about: str
    file: str
    module: str
    """Whose coroutine ``write(source, path, **options)`` makes the table of a
    `coevolve.export.source.Source` and returns what is in it, and whose docstring explains its
    columns. It is imported only then."""

    options: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Keywords of ``write``, each with its choices, the default first."""
