"""Where the calls of judges and readers are recorded, and which budget they use."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from protocols.evolution import Candidate, SignalKind
from protocols.interfaces import CallLog


@dataclass(frozen=True)
class Account:
    """The record of calls about one candidate."""

    calls: AbstractAsyncContextManager[CallLog]
    """Opened for one question."""

    kind: SignalKind
    """The kind of the candidate's signal."""


FindAccount = Callable[[Candidate], Awaitable[Account]]
