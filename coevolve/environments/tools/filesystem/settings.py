"""The settings of the environment ``filesystem``."""

import msgspec

from protocols.numbers import Count


class FilesystemConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks on a simulated file system, drawn by a grammar."""

    seeds: Count = 150
    """Number of tasks that the run starts with; every arm except ``uniform`` trains on them."""

    held_out: Count = 240
    """Number of held-out tasks, the same in every run."""
