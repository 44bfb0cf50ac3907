"""Plays calls against a task in a separate world: references, mutants, candidates."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from coevolve.environments.tools.commands import Observed, Tried, TriedTurn, Verdict
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.task import ToolTask

T = TypeVar("T")


class Watch(Protocol):
    """Runs one step of a session, and ends the session if the step exceeds a limit."""

    def __call__(self, session: Session, step: Callable[[], T], call: str = "", /) -> T:
        """Return the result of ``step``; if the session ended, the result after its end.

        ``call`` is the text of the call that the step makes; empty if it makes none.
        """
        ...


def unwatched(_session: Session, step: Callable[[], T], _call: str = "") -> T:
    """Run a step without limits; for calls that no policy wrote."""
    return step()


class TrialRun:
    """A trial: the same steps as in a session with the same calls, each with its own limits."""

    def __init__(self, body: ToolTask, turns: Sequence[Sequence[str]], words: str = "") -> None:
        """Open a new session; ``words`` are the last ones. Raises as `session.World` does."""
        self._turns = turns
        self._words = words
        self._session = Session(body)
        self._initial = self._session.digest()

    def play(self, watch: Watch = unwatched) -> Tried:
        """Play every turn. Raises SimulatorError if there are more than the task has."""
        played = tuple(self._turn(calls, watch) for calls in self._turns)
        return Tried(initial=self._initial, turns=played)

    def _turn(self, calls: Sequence[str], watch: Watch) -> TriedTurn:
        observed = tuple(self._act(text, watch) for text in calls)
        verdict, state = watch(self._session, self._grade)
        return TriedTurn(observed=observed, verdict=verdict, state=state)

    def _act(self, text: str, watch: Watch) -> Observed:
        return watch(self._session, partial(self._session.act, text), text)

    def _grade(self) -> tuple[Verdict, str]:
        return self._session.grade(self._words), self._session.digest()
