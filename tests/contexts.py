"""The context of a part that a test opens alone."""

from pathlib import Path
from typing import Any

from coevolve.loop import PARTS
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig


def context_of(
    config: RunConfig,
    store: Any,
    part: str = "",
    *,
    reader: Any = None,
    folder: Path = Path("/nowhere"),
) -> PartContext:
    """Return the context of ``part``; ``store`` is its reader as well, unless another is given."""
    return PartContext(
        config=config,
        files=LocalFiles(folder),
        store=store,
        reader=store if reader is None else reader,
        takes=PARTS[part].takes if part else (),
    )
