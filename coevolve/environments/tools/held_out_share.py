"""Which groups of tasks are held out: exactly a share of their number."""

from collections.abc import Collection, Iterable

from protocols.tasks import Split


def held_out_places(
    places: Iterable[int], share: float, *, decided: Collection[Split] = ()
) -> set[int]:
    """Return the lowest places, ``share`` of their number, rounded.

    At least one place goes to each side that is not among the sides ``decided`` by other tasks.
    Places are digests of what the tasks of a group have in common, so the choice is random. If
    groups are added, most others keep their side.
    """
    ordered = sorted(set(places))
    least, kept = int("held_out" not in decided), int("train" not in decided)
    return set(ordered[: max(least, min(round(share * len(ordered)), len(ordered) - kept))])
