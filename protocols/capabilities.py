"""What the loop may do with an environment, and what it leaves out without it."""

import msgspec


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment declares of itself; `python -m coevolve.environment check` measures it.

    The loop does nothing that needs a capability which is not declared, and says so.
    """

    replayable: bool = True
    """The same world opens again, and the same calls in it give the same answers."""

    state_digest: bool = True
    """Two worlds can be compared as a whole."""

    references: bool = True
    """Tasks carry what solves them."""

    deterministic_reward: bool = True
    """The same attempt always gets the same reward."""

    fresh_instances: bool = False
    """A task can be made again from a seed, with other names and values."""


WITHOUT = {
    "replayable": "no tasks are synthesized: the arm has to be static",
    "state_digest": "no tasks are synthesized: the arm has to be static",
    "references": "no imitation",
    "deterministic_reward": "signals.reward_flip_rate is taken off the boundary signal",
    "fresh_instances": "success is measured on the held-out tasks as they are",
}
"""Capability -> what the loop does without it."""

NAMES = tuple(WITHOUT)


def absent(capabilities: Capabilities) -> dict[str, str]:
    """Return the capabilities that are not there, with what the loop does without each."""
    return {name: words for name, words in WITHOUT.items() if not getattr(capabilities, name)}
