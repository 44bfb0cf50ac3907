"""Tries an objective of the user's own on a made-up group, before a run is started with it."""

from coevolve.base.foreign import boundary
from coevolve.learning.group import BatchGroup
from coevolve.learning.objective import Objective
from protocols import columns
from protocols.errors import ConfigError
from protocols.learner_config import LearnerConfig
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout, Tokens

SIZE = 4
"""Rollouts of the group."""

NEEDS = "coevolve/docs/learning.md has an example"


def refuse_incomplete(objective: Objective) -> None:
    """Refuse an objective that cannot make rows of a group, or has no losses for its own rows.

    The group has two successes and two failures. Raises ConfigError.
    """
    kind = type(objective)
    if kind.rows is Objective.rows:
        raise ConfigError(
            f"{kind.__name__} needs a method rows(group, learner), found none; {NEEDS}"
        )
    with boundary(ConfigError, f"{kind.__name__}.rows needs to accept successes and failures"):
        rows = kind.rows(objective, _group(), LearnerConfig())
        uses_own = any(each.component is objective for row in rows for each in row.streams)
    if uses_own and kind.losses is Objective.losses:
        raise ConfigError(
            f"{kind.__name__} needs a method losses(scored), because its rows have it as their "
            f"component, found none; {NEEDS}"
        )


def _group() -> BatchGroup:
    rollouts = tuple(_rollout(index) for index in range(SIZE))
    record = TrainedGroup(
        group_id="g",
        group=0,
        task_id="t",
        sequences=tuple(range(SIZE)),
        successes=2,
        use="policy_gradient",
    )
    return BatchGroup(record=record, rollouts=rollouts, reference=None)


def _rollout(index: int) -> Rollout:
    return Rollout(
        group_id="g",
        group=0,
        index=index,
        group_size=SIZE,
        task_id="t",
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32((1, 2, 3, 4)),
            mask=columns.uint8((0, 0, 1, 1)),
            logprobs=columns.float32((0.0, 0.0, -1.0, -1.0)),
            versions=columns.int32((-1, -1, 0, 0)),
        ),
        actions=(),
        turns_passed=int(index < 2),
        turns_total=1,
        reward=float(index < 2),
        version_min=0,
        version_max=0,
        ended="finished" if index < 2 else "wrong",
        wall_s=1.0,
    )
