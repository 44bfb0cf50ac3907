"""The messages between a rollout and a simulator.

A session is one conversation's private copy of the simulated world. Its caller names it, so that
the simulator recognizes a repeated command. Commands travel in batches: a worker answers each
command of a batch, in order.
"""

from typing import Annotated

import msgspec

from coevolve.environments.tools.calls import as_far_as_read
from coevolve.environments.tools.task import ToolTask

MAX_WORDS_CHARS = 32_000
"""Maximum characters of words to judge; the last ones are kept, because an answer is at the end."""


class Reset(msgspec.Struct, frozen=True, kw_only=True, tag="reset"):
    """Open ``session`` with a new world of ``task``, at the first turn."""

    session: str
    task: ToolTask


class Act(msgspec.Struct, frozen=True, kw_only=True, tag="act"):
    """Execute one call of the policy in ``session``."""

    session: str

    text: str
    """The text that the policy wrote; it is parsed, never evaluated."""


class Grade(msgspec.Struct, frozen=True, kw_only=True, tag="grade"):
    """End the turn of the session, compare with the reference, and go to the next turn."""

    session: str

    words: str = ""
    """The policy's last words, if this was its last turn; at most ``MAX_WORDS_CHARS``."""


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """Remove ``session``; an unknown session is no error."""

    session: str


class Trial(msgspec.Struct, frozen=True, kw_only=True, tag="trial"):
    """Play calls turn by turn against ``task`` in a separate world; no session remains.

    One such command executes a reference, one of its mutants, or a synthesizer's proposal.
    """

    session: str
    """Names the trial in messages; no session of this name is opened or used."""

    task: ToolTask

    turns: tuple[tuple[str, ...], ...]
    """Calls by turn, with at most as many turns as the task has. Every turn is played, whatever the
    verdict on earlier turns is."""

    words: str = ""
    """The last words, as in `Grade`."""


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """Return the state of ``session``."""

    session: str


Command = Reset | Act | Grade | Release | Trial | Look


def sendable(command: Command) -> Command:
    """Return a command with a policy's texts cut to what is read, without what UTF-8 cannot encode.

    Messages between processes are UTF-8, and a text may hold half a character.
    """
    match command:
        case Act(text=text):
            return msgspec.structs.replace(command, text=_utf8(as_far_as_read(text)))
        case Trial(turns=turns, words=words):
            played = tuple(tuple(_utf8(as_far_as_read(call)) for call in calls) for calls in turns)
            return msgspec.structs.replace(command, turns=played, words=_utf8(words))
        case Grade(words=words):
            return msgspec.structs.replace(command, words=_utf8(words))
        case _:
            return command


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The session is open (after ``Reset``) or removed (after ``Release``)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, tag="observed"):
    """The answer of a tool."""

    result: str
    """The tool's answer as text, exactly as BFCL's own executor prints it."""

    failed: bool
    """Whether the answer is an error message: the call does not parse, or the tool refused it."""

    ended: bool = False
    """Whether the call ended the policy's turn. Otherwise only a message without a call does."""


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag="passed"):
    """State and answers match the reference after this turn."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """State or answers do not match the reference; the rollout can no longer succeed."""

    reason: str
    """The checker's name for the fault, for example ``instance_state_mismatch``."""

    reward: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.0
    """Partial reward of the attempt, if the tools themselves give rewards."""

    call: str = ""
    """The reference's call whose answer the attempt never got, if that is the fault."""


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The machine failed, not the policy: the session is lost and its rollout fails."""

    reason: str


Verdict = Passed | Failed
"""The result of a turn that is counted for the policy."""


class TriedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a trial."""

    observed: tuple[Observed, ...]
    """One answer per call."""

    verdict: Verdict

    state: str
    """Digest of the whole world after the turn, including private parts such as the working
    directory; equal for equal worlds. Empty if the trial was cut short or the world is cyclic."""


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag="tried"):
    """The results of a trial."""

    initial: str
    """Digest of the world before the first call."""

    turns: tuple[TriedTurn, ...]


def with_results(body: ToolTask, played: Tried) -> ToolTask:
    """Return the task with the answers that its reference got in a trial."""
    turns = tuple(
        msgspec.structs.replace(turn, results=tuple(each.result for each in tried.observed))
        for turn, tried in zip(body.turns, played.turns, strict=True)
    )
    return msgspec.structs.replace(body, turns=turns)


class Looked(msgspec.Struct, frozen=True, kw_only=True, tag="looked"):
    """The state of a session."""

    state: str
    """As in `TriedTurn.state`."""


Reply = Ready | Observed | Passed | Failed | Tried | Looked | Broken
