"""The seeds that a bench is given."""

from protocols.errors import RunError


def seeds_of(text: str) -> list[int]:
    """Return the seeds named by ``0,1,4`` or ``0-7``. Raises RunError."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = (first, last or first)
        if not all(end.isascii() and end.isdecimal() for end in ends):
            raise RunError(
                "--seeds needs whole numbers of 0 or more, separated by commas, or a range "
                f"such as 0-7; found {text!r}"
            )
        seeds.extend(range(int(ends[0]), int(ends[1]) + 1))
    return list(dict.fromkeys(seeds))
