"""Plays calls against a task in a world of its own: references, mutants, experiments."""

from collections.abc import Sequence

from coevolve.bfcl.session import Session
from protocols.simulation import Failed, Observed, Tried, TriedTurn
from protocols.tasks import ToolTask


class TrialRun:
    """A trial under way: one that is cut short still says how far it came."""

    def __init__(self, body: ToolTask, turns: Sequence[Sequence[str]]) -> None:
        """Open a fresh session. Raises as `coevolve.bfcl.session.World` does."""
        self._turns = turns
        self._session = Session(body)
        self._initial = self._session.world.digest()
        self._observed: list[list[Observed]] = []
        self._played: list[TriedTurn] = []

    def play(self) -> Tried:
        """Play every turn. Raises SimulatorError where there are more than the task has."""
        for calls in self._turns:
            observed: list[Observed] = []
            self._observed.append(observed)
            for text in calls:
                observed.append(self._session.act(text))
            verdict = self._session.grade()
            state = self._session.world.digest()
            self._played.append(TriedTurn(observed=tuple(observed), verdict=verdict, state=state))
        return self._so_far()

    def cut_short(self, reason: str, answer: Observed) -> Tried:
        """Fail the turn under way and all after it; ``answer`` is said to every call left."""
        for turn in range(len(self._played), len(self._turns)):
            observed = tuple(self._observed[turn]) if turn < len(self._observed) else ()
            left = len(self._turns[turn]) - len(observed)
            self._played.append(
                TriedTurn(
                    observed=observed + (answer,) * left, verdict=Failed(reason=reason), state=""
                )
            )
        return self._so_far()

    def _so_far(self) -> Tried:
        return Tried(initial=self._initial, turns=tuple(self._played))
