"""What crosses between a rollout and a simulator.

A session is one conversation's private copy of the simulated world. Its caller names it, so that
a repeated command is recognised. Commands travel in batches: a worker answers each command of a
batch, in order.
"""

from typing import Annotated

import msgspec

from coevolve.environments.tools.task import ToolTask

MAX_WORDS_CHARS = 32_000
"""Of words that are to be judged, the last ones count: an answer stands at the end."""


class Reset(msgspec.Struct, frozen=True, kw_only=True, tag="reset"):
    """Open ``session`` on a fresh world of ``task``, at the first turn."""

    session: str
    task: ToolTask


class Act(msgspec.Struct, frozen=True, kw_only=True, tag="act"):
    """Carry out one call of the policy in ``session``."""

    session: str

    text: str
    """What the policy wrote: parsed, never evaluated."""


class Grade(msgspec.Struct, frozen=True, kw_only=True, tag="grade"):
    """End the session's turn, compare with the reference, and go on to the next turn."""

    session: str

    words: str = ""
    """What the policy said last, if it was its last turn; at most ``MAX_WORDS_CHARS``."""


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """Forget ``session``; unknown sessions are no error."""

    session: str


class Trial(msgspec.Struct, frozen=True, kw_only=True, tag="trial"):
    """Play calls turn by turn against ``task`` in a world of its own; leaves no session behind.

    What carries out a reference, its mutants and what a synthesizer made: one command each.
    """

    session: str
    """Names the trial in messages; no session of this name is opened or touched."""

    task: ToolTask

    turns: tuple[tuple[str, ...], ...]
    """Calls by turn, at most as many turns as the task has. Every turn is played, whatever the
    verdict on the ones before."""


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """Tell the state of ``session``."""

    session: str


Command = Reset | Act | Grade | Release | Trial | Look


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The session stands as asked (after ``Reset`` and ``Release``)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, tag="observed"):
    """What the tool answered."""

    result: str
    """The tool's answer as text, exactly as BFCL's own executor prints it."""

    failed: bool
    """Whether it is an error message: the call does not parse, or the tool refused it."""


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag="passed"):
    """State and answers match the reference after this turn."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """They do not. The rollout cannot succeed any more."""

    reason: str
    """The checker's own word for it, for example ``instance_state_mismatch``."""

    reward: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.0
    """What the attempt is worth all the same, where the tools themselves say so."""


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The machine failed, not the policy: the session is gone and its rollout fails."""

    reason: str


Verdict = Passed | Failed
"""How a turn ended, in the policy's account."""


class TriedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a trial."""

    observed: tuple[Observed, ...]
    """One answer for each call."""

    verdict: Verdict

    state: str
    """Digest of the whole world after the turn, private parts like the working directory included:
    equal where the worlds are. Empty where the trial was cut short, or no walk of it ends."""


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag="tried"):
    """How a trial went."""

    initial: str
    """Digest of the world before the first call."""

    turns: tuple[TriedTurn, ...]


class Looked(msgspec.Struct, frozen=True, kw_only=True, tag="looked"):
    """The state of a session."""

    state: str
    """As `TriedTurn.state`."""


Reply = Ready | Observed | Passed | Failed | Tried | Looked | Broken
