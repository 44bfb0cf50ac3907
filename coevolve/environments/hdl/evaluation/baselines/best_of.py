"""Best of N: the strongest of so many stimulus programs, whatever made them.

A baseline is an iterator of programs. Each program is one call of the simulator, so baselines are
compared at equal numbers of calls; the coverage of several programs is never merged, since a policy
hands in one.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

import msgspec

from coevolve.environments.hdl.simulate.messages import Coverage
from coevolve.environments.hdl.stimulus.program import Program

Score = Callable[[Sequence[Program]], Awaitable[Sequence[Coverage]]]
"""Runs programs; one call of the simulator each."""


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """What a baseline came to."""

    program: Program
    coverage: Coverage


async def best_of(programs: Iterator[Program], calls: int, score: Score) -> Best:
    """Try the first ``calls`` programs, fewer where there are no more, and return the best.

    Of equals the first. Raises ValueError where there is no program at all.
    """
    tried = tuple(islice(programs, calls))
    if not tried:
        raise ValueError(f"best of {calls} needs a program to try, found none")
    coverages = await score(tried)
    averages = [coverage.overall_average for coverage in coverages]
    first = averages.index(max(averages))
    return Best(program=tried[first], coverage=coverages[first])
