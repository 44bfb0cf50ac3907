"""The settings of the environment ``filesystem``."""

import msgspec

from protocols.numbers import Count


class FilesystemConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks on a simulated file system, drawn afresh."""

    seeds: Count = 150
    """Tasks that the run starts with; every arm but ``uniform`` trains on them."""

    held_out: Count = 240
    """Tasks of the held-out set, the same in every run."""
