"""A circuit breaker for callers that can go on without a model's answer."""

import time
from collections.abc import Callable

FAILURES = 3
FIRST_REST_S = 10.0
LONGEST_REST_S = 600.0


class Breaker:
    """After `FAILURES` failures in a row, lets a model rest before it is asked once more.

    The rest doubles with each further failure, up to `LONGEST_REST_S`; an answer ends it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._rests_until = float("-inf")
        self._reason = ""

    @property
    def rests(self) -> str:
        """Why the model is not asked now; empty if it may be."""
        left_s = self._rests_until - self._clock()
        if left_s <= 0:
            return ""
        return (
            f"it failed {self._failures} times in a row and is asked again in {left_s:.0f} s; last "
            f"error: {self._reason}"
        )

    def failed(self, error: Exception) -> None:
        self._failures += 1
        self._reason = str(error)
        if self._failures >= FAILURES:
            rest_s = FIRST_REST_S * 2 ** (self._failures - FAILURES)
            self._rests_until = self._clock() + min(LONGEST_REST_S, rest_s)

    def answered(self) -> None:
        """Reset the failures, and end the rest."""
        self._failures, self._rests_until = 0, float("-inf")
