"""Which groups of tasks are held out: exactly a share of their number."""

from collections.abc import Iterable


def held_out_places(places: Iterable[int], share: float) -> set[int]:
    """Return the lowest places, ``share`` of their number, rounded, but one on each side at least.

    Places are digests of what the tasks of a group have in common, so the choice is random. If
    groups are added, most others keep their side.
    """
    ordered = sorted(set(places))
    most = max(1, len(ordered) - 1)
    return set(ordered[: min(max(1, round(share * len(ordered))), most)])
