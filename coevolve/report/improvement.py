"""How success on a task changed, from its first group of rollouts to the newest."""

from heapq import nlargest

from coevolve.history.group_totals import Score, TaskGroups
from coevolve.history.run_history import RunHistory

NAMED = 3
"""Number of most improved tasks that are named."""


def points(groups: TaskGroups) -> float:
    """Return the change of success, from -100 to 100; 0 with fewer than two judged groups."""
    return 100 * (_share(groups.newest) - _share(groups.first))


def most_improved(data: RunHistory) -> dict[str, float]:
    """Return the change of the `NAMED` tasks with the largest; of equals those with most groups."""
    evolution = data.evolution
    groups = {task: evolution.history(task).groups for task in evolution.tasks}
    judged = {task: (points(each), each.groups) for task, each in groups.items() if each.judged > 1}
    return {task: judged[task][0] for task in nlargest(NAMED, judged, key=lambda x: judged[x])}


def _share(score: Score) -> float:
    return score.successes / score.rollouts if score.rollouts else 0.0
