"""Records the commands of a child's open sessions, so that another child can take them over.

A call that exhausts its CPU time inside one C function cannot be interrupted: it ends the child.
Only the session of that call may fail. Worlds are deterministic, so the new child replays the
commands of all other sessions; the session of the call ends there, as it would have if Python could
interrupt the call.

Memory is bounded. For a session that has ended, only its ending is kept. Above ``MAX_SESSIONS``
the least recently used session is dropped, as in the child: its owner must have died. Above
``MAX_TOLD_CHARS`` the session with the longest history ends, out of memory. ``MAX_SESSIONS`` honest
sessions reach a tenth of that.
"""

from collections.abc import Container, Sequence

from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Grade,
    Look,
    Looked,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
    TriedTurn,
)
from coevolve.environments.tools.endings import OUT_OF_MEMORY, OUT_OF_TIME, Ending, ending_of
from coevolve.environments.tools.session import CALL_CHARS

MAX_SESSIONS = 2000

MAX_TOLD_CHARS = 64_000_000


class _History:
    def __init__(self, reset: Reset) -> None:
        self.commands: list[Command] = [reset]
        self.told_chars = 0
        self.ending: Ending | None = None

    def tell(self, command: Act | Grade) -> int:
        """Add a command; return its number of counted characters."""
        chars = CALL_CHARS + len(command.text if isinstance(command, Act) else command.words)
        self.commands.append(command)
        self.told_chars += chars
        return chars

    def end(self, ending: Ending) -> int:
        """Drop all commands and keep the ending; return the number of characters dropped."""
        chars, self.told_chars = self.told_chars, 0
        self.commands.clear()
        self.ending = ending
        return chars


class Histories:
    """The commands of every open session; the most recently used session is last."""

    def __init__(
        self, max_sessions: int = MAX_SESSIONS, max_told_chars: int = MAX_TOLD_CHARS
    ) -> None:
        self._max_sessions = max_sessions
        self._max_told_chars = max_told_chars
        self._open: dict[str, _History] = {}
        self._told_chars = 0

    def clear(self) -> None:
        """Remove all sessions."""
        self._open.clear()
        self._told_chars = 0

    def replay(self) -> list[Command]:
        """Return the commands that open every session again in its present state."""
        return [command for each in self._open.values() for command in each.commands]

    def end(self, session: str, ending: Ending) -> None:
        """Record that a session has ended."""
        if session in self._open:
            self._told_chars -= self._open[session].end(ending)

    def answered(self, commands: Sequence[Command], guilty: Container[int]) -> dict[int, Reply]:
        """Return the replies that need no child, by position.

        They are the replies to the ``guilty`` commands, which never open or release a session, and
        to commands for a session that has ended.
        """
        ended = {name: each.ending for name, each in self._open.items() if each.ending}
        replies: dict[int, Reply] = {}
        for index, command in enumerate(commands):
            name = command.session
            match command:
                case Reset() | Release():
                    ended.pop(name, None)
                case Trial():
                    if index in guilty:
                        replies[index] = _failed_trial(command)
                case Act() | Grade() | Look():
                    if index in guilty:
                        ended[name] = OUT_OF_TIME
                    if name in ended:
                        replies[index] = _reply_of_ended(command, ended[name])
        return replies

    def record(self, commands: Sequence[Command], replies: Sequence[Reply]) -> None:
        """Add a batch that was executed."""
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(command, Trial):
                continue
            if isinstance(command, Reset | Release) or isinstance(reply, Broken):
                self._forget(command.session)
            if isinstance(command, Reset) and not isinstance(reply, Broken):
                self._begin(command)
            if isinstance(command, Act | Grade):
                self._tell(command, reply)

    def _begin(self, reset: Reset) -> None:
        if len(self._open) >= self._max_sessions:
            self._forget(next(iter(self._open)))
        self._open[reset.session] = _History(reset)

    def _tell(self, command: Act | Grade, reply: Reply) -> None:
        history = self._open.pop(command.session, None)
        if history is None:
            return
        self._open[command.session] = history
        if history.ending is None:
            self._told_chars += history.tell(command)
        if ending := ending_of(reply):
            self.end(command.session, ending)
        if self._told_chars > self._max_told_chars:
            most = max(self._open, key=lambda name: self._open[name].told_chars)
            self.end(most, OUT_OF_MEMORY)

    def _forget(self, session: str) -> None:
        if session in self._open:
            self._told_chars -= self._open.pop(session).told_chars


def _reply_of_ended(command: Act | Grade | Look, ending: Ending) -> Reply:
    match command:
        case Act():
            return ending.answer
        case Grade():
            return ending.verdict
        case Look():
            return Looked(state="")


def _failed_trial(trial: Trial) -> Tried:
    """Return a trial that failed from its first turn on."""
    return Tried(
        initial="",
        turns=tuple(
            TriedTurn(
                observed=(OUT_OF_TIME.answer,) * len(calls), verdict=OUT_OF_TIME.verdict, state=""
            )
            for calls in trial.turns
        ),
    )
