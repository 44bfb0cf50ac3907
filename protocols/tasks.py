"""What an agent is asked to do.

A task's body is its environment's: bytes that only the environment reads, so that messages know of
none.
"""

from typing import Literal

import msgspec

Split = Literal["train", "held_out"]
"""Held-out tasks are for the evaluator alone: never trained on, never in a synthesizer's prompt."""

SPLITS: tuple[Split, ...] = ("train", "held_out")

NOTHING = msgspec.Raw(b"\xc0")
"""A body of nothing: msgpack's nil."""


class Seeded(msgspec.Struct, frozen=True, kw_only=True, tag="seeded"):
    """The task came with the run: a benchmark item or a draw of the task grammar."""

    source: str
    """Where from, for example ``grammar:uniform`` or ``tasks.jsonl:put-1``."""


class Synthesized(msgspec.Struct, frozen=True, kw_only=True, tag="synthesized"):
    """The loop made the task from a signal."""

    candidate_id: str
    signal_id: str


class Continued(msgspec.Struct, frozen=True, kw_only=True, tag="continued"):
    """The task goes on from what a rollout of another task left."""

    root: str
    """The task that this work began with."""

    rollout: str
    """The rollout that is continued, as ``group_id/index``."""


Origin = Seeded | Synthesized | Continued


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """A task that may be attempted: complete, and checked by execution."""

    task_id: str
    split: Split
    origin: Origin

    skills: tuple[str, ...] = ()
    """What the task exercises, in the environment's words."""

    body: msgspec.Raw
    """What is to be done, as msgpack of the environment's own type."""

    @property
    def root(self) -> str:
        """Return the task that this work began with."""
        return self.origin.root if isinstance(self.origin, Continued) else self.task_id


class TurnText(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a task, for a reader."""

    instruction: str
    """What the user says. Empty where nothing is said."""

    calls: tuple[str, ...] = ()
    """What carries the turn out, in order."""


class TaskText(msgspec.Struct, frozen=True, kw_only=True):
    """A task in words: what its environment tells a reader about it."""

    headline: str
    """What is asked, in one line."""

    turns: tuple[TurnText, ...] = ()
    """The conversation, where the task is one."""

    tools: tuple[str, ...] = ()
    """The tool of each call, in order; empty where the task is about no tools."""


def body_of(value: msgspec.Struct) -> msgspec.Raw:
    """Return an environment's value as the body of a message."""
    return msgspec.Raw(msgspec.msgpack.encode(value))
