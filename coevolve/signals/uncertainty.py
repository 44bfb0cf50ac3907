"""A rule in addition to both rule sets: high uncertainty about the own tokens, with mixed results.

It ranks the newest visit's mean surprise among the newest ones of all other tasks (a conformal
p-value). If all tasks are alike, it fires on less than ``1 - confidence`` of the visits. With ``1 /
(1 - confidence)`` tasks or fewer it cannot fire.
"""

from collections.abc import Iterator

from coevolve.signals.history import History
from coevolve.signals.probability import ROUNDING
from coevolve.signals.rules import Finding
from protocols.evolution import GroupSummary, OnTask
from protocols.evolution_config import SignalsConfig


def uncertainty(config: SignalsConfig, history: History, visit: GroupSummary) -> Iterator[Finding]:
    """Fire if the surprise is among the highest of the pool and the group's outcomes differ."""
    if not 0 < visit.successes < visit.rollouts:
        return
    surprises = history.surprise
    p_value = (len(surprises) - surprises.below(visit.surprise)) / len(surprises)
    if p_value < 1 - config.confidence - ROUNDING:
        median = (surprises.at((len(surprises) - 1) // 2) + surprises.at(len(surprises) // 2)) / 2
        yield Finding(
            about=OnTask(task_id=visit.task_id),
            score=1 - median / visit.surprise,
            rule=(
                f"uncertainty: surprise {visit.surprise:.3g} nats a token, median {median:.3g} of "
                f"{len(surprises)} tasks, p = {p_value:.3g}, {visit.successes}/{visit.rollouts} now"
            ),
            evidence=visit.evidence,
        )
