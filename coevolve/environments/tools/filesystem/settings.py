"""The settings of the environment ``filesystem``."""

from typing import Annotated

import msgspec

Drawn = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class FilesystemConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks on a simulated file system, drawn by a grammar."""

    seeds: Drawn = 150
    """Number of tasks that the run starts with; every arm except ``uniform`` trains on them."""

    held_out: Drawn = 240
    """Number of held-out tasks, the same in every run."""
