"""The failures of a part since it last finished a record; whether a resumption meets them again."""

import re
import time
from collections import deque

from protocols.errors import CoevolveError, JournalError, PartDiedError, PartRaisedError

FAILURES = 8
WITHIN_S = 120.0

ALIKE = 5
ALIKE_WITHIN_S = 900.0
"""A part that raised one error so many times in a row within so many seconds raises it again. Its
starts may be slow, so the time is longer than `WITHIN_S`."""

MET_AGAIN = "a resumption meets it again, so remove its cause first"

_VARYING = re.compile(r"""'[^']*'|"[^"]*"|\S*\d\S*""")
"""Quoted words, and words with digits: numbers, ids, addresses."""


def kind_of(reason: str) -> str:
    """Return what errors of one kind share: the text without quoted words and numbers."""
    return _VARYING.sub("*", reason)


class PartFailures:
    """The newest failures in a row."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=FAILURES)
        self._raised: deque[str] = deque(maxlen=FAILURES)
        """Kinds of the errors that the part raised; empty for a death, and for a failed journal."""

        self._deaths = 0

    def add(self, error: CoevolveError) -> None:
        """Note a failure that happened now."""
        died = isinstance(error, PartDiedError) and not isinstance(error, PartRaisedError)
        self._times.append(time.monotonic())
        self._raised.append("" if died or isinstance(error, JournalError) else kind_of(str(error)))
        self._deaths = self._deaths + 1 if died else 0

    def clear(self) -> None:
        """Forget them: the part has finished a record."""
        self._times.clear()
        self._raised.clear()
        self._deaths = 0

    @property
    def are_many(self) -> bool:
        """Whether the part failed `FAILURES` times within `WITHIN_S`."""
        return len(self._times) == FAILURES and self._times[-1] - self._times[0] < WITHIN_S

    @property
    def are_alike(self) -> bool:
        """Whether the part raised one kind of error `ALIKE` times in a row."""
        kinds, times = list(self._raised)[-ALIKE:], list(self._times)[-ALIKE:]
        is_one = len(kinds) == ALIKE and len(set(kinds)) == 1 and kinds[0] != ""
        return is_one and times[-1] - times[0] < ALIKE_WITHIN_S

    @property
    def are_deaths(self) -> bool:
        """Whether its process died each of the last `FAILURES` times."""
        return self._deaths >= FAILURES
