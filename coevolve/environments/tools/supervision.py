"""What a policy may imitate of tasks with tools."""

from coevolve.environments.rewards_only import RewardsAlone
from coevolve.environments.tools.interfaces import Renderer
from protocols.tasks import Task


class ReferenceSupervision(RewardsAlone):
    """A `protocols.interfaces.Supervision` of tasks with references."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the reference in the policy's tokens."""
        return self._renderer.demonstration(task)
