"""What a part of the benchmark on a GPU found."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Verdict = Literal["measured", "proven", "refuted", "failed", "late", "skipped"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the output."""

    part: str
    verdict: Verdict
    """``refuted``: a proof found the opposite. ``failed``: an error. ``late``: the time limit."""

    said: str
    """One line for people."""

    figures: Mapping[str, float] = {}
    throughput: Mapping[str, float] = {}
    """Fields of `coevolve.estimate.step_time.Throughput`."""

    wall_s: float = 0.0


def proof(part: str, holds: bool, said: str, **figures: float) -> Outcome:
    """Return the outcome of a proof."""
    verdict: Verdict = "proven" if holds else "refuted"
    return Outcome(part=part, verdict=verdict, said=said, figures=figures)
