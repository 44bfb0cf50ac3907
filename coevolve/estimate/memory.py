"""What the processes of a run on CPUs take of main memory, beside what was estimated."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from coevolve.estimate.estimate import estimate
from coevolve.estimate.sizes import Bytes
from coevolve.models.tiny_random.resolve import running
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import CoevolveError

ERROR_SHARE = 0.25
"""Share by which a process may exceed its estimate, which leaves out what its allocator keeps."""


def expected(config: RunConfig, folder: Path, *, imitates_others: bool) -> Mapping[str, Bytes]:
    """Return kind of part -> peak bytes of its process, for the run in ``folder``.

    ``imitates_others`` is that of its environment. Empty for GPUs, and if there is no estimate.
    """
    try:
        return estimate(running(config, folder), imitates_others=imitates_others).processes
    except CoevolveError:
        return {}


def excesses(expected: Mapping[str, Bytes], statuses: Sequence[PartStatus]) -> list[str]:
    """Return a sentence for each part whose process took more than its estimate allows."""
    found: list[str] = []
    for each in statuses:
        kind = "engine" if each.part.startswith("rollout-") else each.part
        known = expected.get(kind)
        if known and each.peak_bytes > (1 + ERROR_SHARE) * known:
            found.append(
                f"memory: {each.part} took {each.peak_bytes / 1e9:.2f} GB at its peak, and the "
                f"estimate is {known / 1e9:.2f} GB"
            )
    return found
