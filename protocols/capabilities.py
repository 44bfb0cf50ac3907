"""Capabilities of an environment, and what the loop leaves out without each."""

import msgspec


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """An environment's capabilities; `coevolve environment check` measures them.

    The loop does nothing that needs an undeclared capability, and reports this.
    """

    replayable: bool = True
    """A world can be opened again, and the same calls in it give the same answers."""

    state_digest: bool = True
    """Two whole worlds can be compared."""

    references: bool = True
    """Tasks carry a reference solution."""

    deterministic_reward: bool = True
    """The same attempt always gets the same reward."""

    fresh_instances: bool = False
    """A task can be instantiated again from a seed, with other names and values."""


WITHOUT = {
    "replayable": "no tasks are synthesized: the arm has to be static",
    "state_digest": "no tasks are synthesized: the arm has to be static",
    "references": "no imitation",
    "deterministic_reward": "signals.reward_flip_rate is taken off the boundary signal",
    "fresh_instances": "success is measured on tasks as they are: no instance gap",
}
"""Capability -> what the loop does without it."""

NAMES = tuple(WITHOUT)


def absent(capabilities: Capabilities) -> dict[str, str]:
    """Return the undeclared capabilities, with what the loop does without each."""
    return {name: words for name, words in WITHOUT.items() if not getattr(capabilities, name)}
