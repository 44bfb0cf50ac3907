"""Steps on one design in a row, each from a testbench of those before."""

from collections.abc import Awaitable, Callable, Sequence

from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.policy.frontier import continued
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded, coverage_of

TakeStep = Callable[[CoverageTask, int], Awaitable[Graded | None]]
"""Takes the step of a number, from 0; returns the testbench, None where nothing was written."""


async def chained(
    take: TakeStep, task: CoverageTask, *, steps: int, keeps_best: bool
) -> list[Graded | None]:
    """Take up to ``steps`` steps, until coverage is whole; return what each came to.

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
    """Return the best of at least one testbench; of equals the last.

    The better is the one that ran, then the one with more coverage.
    """
    ranks = [(coverage_of(state) is not None, average(coverage_of(state))) for state in states]
    return states[max(range(len(states)), key=lambda index: (ranks[index], index))]
