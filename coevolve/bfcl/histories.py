"""What the open sessions of a child were told, so that another child can take them over.

A call that exhausts its CPU time inside of one C function cannot be interrupted: it ends the child.
The call's own session is to blame, and no other may suffer. Worlds are deterministic, so the other
sessions are played again from what they were told; the guilty one fails from that call on, as it
would if Python could interrupt the call.
"""

from collections.abc import Container, Sequence

from coevolve.bfcl.frames import OUT_OF_TIME, TOO_LONG
from protocols.simulation import (
    Act,
    Command,
    Failed,
    Grade,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
    TriedTurn,
)


class Histories:
    """The commands of every open session, and the sessions that exhausted a child."""

    def __init__(self) -> None:
        self._told: dict[str, list[Command]] = {}
        self._exhausted: set[str] = set()

    def clear(self) -> None:
        """Forget everything: the sessions are gone."""
        self._told.clear()
        self._exhausted.clear()

    def replay(self) -> list[Command]:
        """Return the commands that open every session again as it was."""
        return [command for commands in self._told.values() for command in commands]

    def answered(self, commands: Sequence[Command], guilty: Container[int]) -> dict[int, Reply]:
        """Return the replies that need no child, by position.

        They are those to the ``guilty`` commands, which open and release no session, and to what is
        asked of a session after it was guilty.
        """
        exhausted = set(self._exhausted)
        replies: dict[int, Reply] = {}
        for index, command in enumerate(commands):
            if index in guilty and not isinstance(command, Trial):
                exhausted.add(command.session)
            match command:
                case Reset() | Release():
                    exhausted.discard(command.session)
                case Trial() if index in guilty:
                    replies[index] = _failed_trial(command)
                case Act() if command.session in exhausted:
                    replies[index] = TOO_LONG
                case Grade() if command.session in exhausted:
                    replies[index] = Failed(reason=OUT_OF_TIME)
                case _:
                    pass
        return replies

    def record(self, commands: Sequence[Command], guilty: Container[int]) -> None:
        """Take in a batch that was carried out."""
        for index, command in enumerate(commands):
            name = command.session
            match command:
                case Reset():
                    self._exhausted.discard(name)
                    self._told[name] = [command]
                case Release():
                    self._exhausted.discard(name)
                    self._told.pop(name, None)
                case Trial():
                    pass
                case Act() | Grade() if index in guilty:
                    self._exhausted.add(name)
                    self._told.pop(name, None)
                case Act() | Grade():
                    if name in self._told:
                        self._told[name].append(command)


def _failed_trial(trial: Trial) -> Tried:
    """Return a trial that failed from its first turn on."""
    return Tried(
        initial="",
        turns=tuple(
            TriedTurn(
                observed=(TOO_LONG,) * len(calls), verdict=Failed(reason=OUT_OF_TIME), state=""
            )
            for calls in trial.turns
        ),
    )
