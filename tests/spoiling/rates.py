"""The error rates of an environment's gates, as the bench `gates` prints them."""

from collections.abc import Sequence

import msgspec

from protocols.evolution import Gate


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refused candidate."""

    task_id: str
    """The task, or the task that a planted candidate was made from."""

    gate: Gate
    found: str


class KindRate(msgspec.Struct, frozen=True, kw_only=True):
    """What the gates did with candidates of one kind."""

    kind: str
    """Of given tasks a label of the environment; of planted candidates what is wrong with them."""

    candidates: int
    admitted: tuple[str, ...]
    """Ids of the tasks of admitted candidates."""

    refusals: tuple[Refusal, ...]

    visible: bool = True
    """Whether execution and form can show the fault. If not, only the meaning of the words can."""

    agreements: tuple[float, ...] = ()
    """Agreement of each candidate that was read (`protocols.evolution.Reading`)."""


class GateRates(msgspec.Struct, frozen=True, kw_only=True):
    """Both error rates of the gates of an environment."""

    given: tuple[KindRate, ...]
    """The environment's own tasks, by label: the refused ones are false refusals."""

    planted: tuple[KindRate, ...]
    """Admitted tasks that were spoilt on purpose: the admitted ones are false admissions."""

    def threshold(self) -> float | None:
        """Return the agreement that separates own from spoilt tasks best; None without a reader.

        It lies in the middle between the agreements on its two sides.
        """
        own = [each for rate in self.given for each in rate.agreements]
        spoilt = [each for rate in self.planted for each in rate.agreements]
        if not own:
            return None
        best = max(sorted(set(own)), key=lambda limit: _separated(own, spoilt, limit))
        below = max((each for each in (*own, *spoilt) if each < best), default=0.0)
        return (best + below) / 2


def _separated(own: Sequence[float], spoilt: Sequence[float], limit: float) -> float:
    """Return by how much the share of own tasks from ``limit`` on exceeds that of spoilt ones."""
    admitted, wrong = (sum(each >= limit for each in of) / max(1, len(of)) for of in (own, spoilt))
    return admitted - wrong
