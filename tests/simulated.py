"""A simulator of tools in this process."""

from collections.abc import Sequence

from coevolve.environments.tools.commands import Observed, Tried, Verdict
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.trial import TrialRun


class InProcessSimulator:
    """A `protocols.interfaces.Simulator` without processes or limits, for trusted tasks."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    async def reset(self, session: str, task: ToolTask) -> None:
        self._sessions[session] = Session(task)

    async def act(self, session: str, text: str) -> Observed:
        return self._sessions[session].act(text)

    async def grade(self, session: str, words: str = "") -> Verdict:
        return self._sessions[session].grade(words)

    async def release(self, session: str) -> None:
        self._sessions.pop(session, None)

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        return TrialRun(task, turns).play()
