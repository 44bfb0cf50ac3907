"""Takes several steps on one design in a row, each from a testbench of an earlier step."""

from collections.abc import Awaitable, Callable, Sequence

from coevolve.environments.hdl.curation.states import merit
from coevolve.environments.hdl.policy.frontier import continued
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded, coverage_of
from coevolve.environments.hdl.simulate.messages import COVERAGE_ALONE
from coevolve.environments.hdl.simulate.reward import RewardConfig

TakeStep = Callable[[CoverageTask, int], Awaitable[Graded | None]]
"""Takes step ``number``, from 0; returns the testbench, or None if the answer has none."""


async def chained(
    take: TakeStep,
    task: CoverageTask,
    *,
    steps: int,
    keeps_best: bool,
    weights: RewardConfig = COVERAGE_ALONE,
) -> list[Graded | None]:
    """Take up to ``steps`` steps, until no more can be earned; return each step's testbench.

    With ``keeps_best`` a step starts from the best testbench so far, else from the last one.
    """
    state: Graded | None = None
    made: list[Graded | None] = []
    for number in range(steps):
        written = await take(continued(task, state, "") if state else task, number)
        made.append(written)
        if written is not None:
            state = best([state or written, written], weights) if keeps_best else written
        if state is not None and merit(state, weights) == 1:
            break
    return made


def best(states: Sequence[Graded], weights: RewardConfig = COVERAGE_ALONE) -> Graded:
    """Return the best of at least one testbench; the last of equals.

    A testbench that ran is better than one that did not, and then one that earns more.
    """
    ranks = [(coverage_of(state) is not None, merit(state, weights)) for state in states]
    return states[max(range(len(states)), key=lambda index: (ranks[index], index))]
