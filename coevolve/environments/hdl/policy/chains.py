"""Takes several steps on one design in a row, each from a testbench of an earlier step."""

from collections.abc import Awaitable, Callable, Sequence

from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.policy.frontier import continued
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded, coverage_of

TakeStep = Callable[[CoverageTask, int], Awaitable[Graded | None]]
"""Takes step ``number``, from 0; returns the testbench, or None if the answer has none."""


async def chained(
    take: TakeStep, task: CoverageTask, *, steps: int, keeps_best: bool
) -> list[Graded | None]:
    """Take up to ``steps`` steps, until all points are covered; return each step's testbench.

    With ``keeps_best`` a step starts from the best testbench so far, else from the last one.
    """
    state: Graded | None = None
    made: list[Graded | None] = []
    for number in range(steps):
        written = await take(continued(task, state, "") if state else task, number)
        made.append(written)
        if written is not None:
            state = best([state or written, written]) if keeps_best else written
        if state is not None and average(coverage_of(state)) == 1:
            break
    return made


def best(states: Sequence[Graded]) -> Graded:
    """Return the best of at least one testbench; the last of equals.

    A testbench that ran is better than one that did not, and then more coverage is better.
    """
    ranks = [(coverage_of(state) is not None, average(coverage_of(state))) for state in states]
    return states[max(range(len(states)), key=lambda index: (ranks[index], index))]
