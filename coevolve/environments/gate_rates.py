"""The error rates of an environment's gates, as `coevolve calibrate --gates` prints them."""

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


class GateRates(msgspec.Struct, frozen=True, kw_only=True):
    """Both error rates of the gates of an environment."""

    given: tuple[KindRate, ...]
    """The environment's own tasks, by label: the refused ones are false refusals."""

    planted: tuple[KindRate, ...]
    """Admitted tasks that were spoilt on purpose: the admitted ones are false admissions."""
