"""Group summaries of designs, for tests."""

from collections.abc import Mapping, Sequence

import numpy as np

from coevolve.environments.hdl.observer import DesignSummary, GroupDetails
from protocols.evolution import GroupSummary
from protocols.rollouts import Writer
from protocols.tasks import body_of


def design_summary(
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
) -> DesignSummary:
    """Return a summary with the given number of rollouts that cover each point."""
    every = np.zeros(points, "<u2")
    for point, count in counts.items():
        every[point] = count
    details = GroupDetails(
        design=design, round=round_, best=0.5, points_hash="p", counts=every.tobytes()
    )
    summary = GroupSummary(
        group_id=f"g{group}",
        group=group,
        task_id=task_id or root or design,
        root=root or design,
        author=author,
        version_min=version,
        version_max=version,
        successes=successes,
        rollouts=rollouts,
        errors=0,
        surprise=0.0,
        sampled_tokens=8,
        calls=rollouts,
        evidence=tuple(evidence),
        details=body_of(details),
    )
    return DesignSummary(summary, details)
