"""What a follower's process and the launcher say to each other, and where its files are."""

import re
from pathlib import Path

import msgspec

NEWS = b"\n"
"""Line to a follower: there are new records."""

END = "end"
"""Line to a follower: the run has ended, and its report is there if there is one."""

FOLDER = "trackers"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a follower: it has done all that it was told of, or it fails."""

    failure: str = ""


def folder_of(run: Path, name: str) -> Path:
    return run / FOLDER / re.sub(r"\W", "_", name)
