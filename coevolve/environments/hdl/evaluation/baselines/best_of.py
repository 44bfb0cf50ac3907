"""Best of N: selects the best of N stimulus programs.

A baseline is an iterator of programs. Each program is one simulator call, so baselines are compared
at equal numbers of calls. The coverage of several programs is never merged, because a policy
submits one program.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

import msgspec

from coevolve.environments.hdl.simulate.messages import Coverage
from coevolve.environments.hdl.stimulus.program import Program

Score = Callable[[Sequence[Program]], Awaitable[Sequence[Coverage]]]
"""Runs programs, with one simulator call each."""


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The best program of a baseline."""

    program: Program
    coverage: Coverage


async def best_of(programs: Iterator[Program], calls: int, score: Score) -> Best:
    """Run the first ``calls`` programs, or all if there are fewer, and return the best.

    Of equals the first. Raises ValueError if there is no program.
    """
    tried = tuple(islice(programs, calls))
    if not tried:
        raise ValueError(f"best of {calls} needs a program to try, found none")
    coverages = await score(tried)
    averages = [coverage.overall_average for coverage in coverages]
    first = averages.index(max(averages))
    return Best(program=tried[first], coverage=coverages[first])
