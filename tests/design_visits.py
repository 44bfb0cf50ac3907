"""Visits of designs, made by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from protocols.design_evolution import DesignVisit
from protocols.transitions import Writer


def design_visit(
    counts: Mapping[int, int],
    *,
    points: int = 80,
    group: int = 0,
    version: int = 0,
    design: str = "top",
    root: str = "",
    task_id: str = "",
    round_: int = 0,
    rollouts: int = 8,
    successes: int = 0,
    author: Writer = "policy",
    evidence: Sequence[int] = (),
) -> DesignVisit:
    """A visit with so many rollouts that cover each point."""
    every = np.zeros(points, "<u2")
    for point, count in counts.items():
        every[point] = count
    return DesignVisit(
        group_id=f"g{group}",
        group=group,
        task_id=task_id or root or design,
        root=root or design,
        design=design,
        round=round_,
        author=author,
        version_min=version,
        version_max=version,
        successes=successes,
        rollouts=rollouts,
        void=0,
        sampled_tokens=8,
        calls=rollouts,
        best=0.5,
        points_hash="p",
        counts=every.tobytes(),
        evidence=tuple(evidence),
    )
