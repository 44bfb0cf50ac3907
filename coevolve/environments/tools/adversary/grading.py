"""How the tools of a set of tasks grade."""

from typing import NamedTuple


class Grading(NamedTuple):
    """How the tools of a set of tasks grade."""

    rewards: bool
    """Whether by a reward of their own; otherwise by comparison with the reference."""

    judges_words: bool
    certain: bool
    """Whether equal attempts get equal rewards."""

    is_own: bool
    """Whether the user can correct it. A benchmark's verdict is what it is, so what it overlooks in
    single arguments is not looked for."""
