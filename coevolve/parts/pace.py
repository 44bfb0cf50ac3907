"""How many records each part takes at a time, and how long it waits for more: the loop's latencies.

Each wait saves calls of the store, whose number determines the cost of a run. A part that is not
named here takes what there is, and writes at once.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a part takes records and writes results."""

    take_limit: int = 256
    """Maximum number of records that one take returns, unless the part's settings say less."""

    take_gather_s: float = 0.0
    """Pause before a further take while there is work, so that one take returns several records."""

    write_gather_s: float = 0.0
    """Delay of a result, so that one call carries several results."""

    urgent_gather_s: float = 0.0
    """The same for a result that others wait for."""


PACES = {
    "curriculum": Pace(),
    "learner": Pace(),
    # One take serves several groups.
    "signals": Pace(take_gather_s=2.0),
    # All signals are held, because the best of them is worked on first.
    "synthesizer": Pace(take_limit=1000, write_gather_s=0.5),
    # Decisions gather for as long, because each is made after the one before is known.
    "validator": Pace(take_gather_s=0.8),
    # The learner needs whole groups, so the last rollout of a group in progress is urgent.
    "rollout": Pace(write_gather_s=0.5, urgent_gather_s=0.1),
    # All engines wait for the last score of a version.
    "scoring": Pace(take_gather_s=0.1, write_gather_s=0.1),
    # Most versions are not scored, so one take can skip several of them.
    "evaluator": Pace(take_limit=64, take_gather_s=1.0),
}
"""The pace of each consumer of the journal."""
