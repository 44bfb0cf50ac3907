"""Tasks that an agent attempts.

Only the environment reads a task's body, so messages do not depend on any environment.
"""

from typing import Literal

import msgspec

Split = Literal["train", "held_out"]
"""Only the evaluator uses held-out tasks; they are never trained on or shown to a synthesizer."""

SPLITS: tuple[Split, ...] = ("train", "held_out")

NOTHING = msgspec.Raw(b"\xc0")
"""An empty body: msgpack's nil."""


class Seeded(msgspec.Struct, frozen=True, kw_only=True, tag="seeded"):
    """The task came with the run, as a benchmark item or a sample of the task grammar."""

    source: str
    """Origin of the task, for example ``grammar:uniform`` or ``tasks.jsonl:put-1``."""


class Synthesized(msgspec.Struct, frozen=True, kw_only=True, tag="synthesized"):
    """The loop made the task from a signal."""

    candidate_id: str
    signal_id: str


class Continued(msgspec.Struct, frozen=True, kw_only=True, tag="continued"):
    """The task continues from the end state of a rollout of another task."""

    root: str
    """The first task of the chain."""

    rollout: str
    """The continued rollout, as ``group_id/index``."""


class Instantiated(msgspec.Struct, frozen=True, kw_only=True, tag="instantiated"):
    """The task is the same work as another one, under other names; one group attempts it."""

    root: str
    """The other task."""

    instance: int
    """Determines the names."""


Origin = Seeded | Synthesized | Continued | Instantiated

NEW_TASKS = (Seeded, Synthesized)
"""Origins of tasks that are drawn; the others are parts of the life of such a task."""


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """A complete task that may be attempted and is checked by execution."""

    task_id: str
    split: Split
    origin: Origin

    skills: tuple[str, ...] = ()
    """Skills that the task exercises, in the environment's words."""

    body: msgspec.Raw
    """The task itself, as msgpack of the environment's own type."""

    scenario: str = ""
    """The scenario of which the task is a variant; empty if the environment has none."""

    @property
    def root(self) -> str:
        """Return the task that is drawn when this one is attempted; usually its own id."""
        return self.task_id if isinstance(self.origin, NEW_TASKS) else self.origin.root


class TurnText(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a task, as text for a reader."""

    instruction: str
    """The user's message; empty if there is none."""

    calls: tuple[str, ...] = ()
    """Calls that carry out the turn, in order."""


class TaskText(msgspec.Struct, frozen=True, kw_only=True):
    """A task as text: the environment's description for a reader."""

    headline: str
    """The request, in one line."""

    turns: tuple[TurnText, ...] = ()
    """The conversation; empty if the task is not one."""

    tools: tuple[str, ...] = ()
    """The tool of each call, in order; empty if the task uses no tools."""

    skills: tuple[str, ...] = ()
    """Skills by the names that all surfaces show, for seeds and made tasks alike: one per turn, or
    some for the whole task; empty for those of the task itself."""


def attempted(task_id: str, instance: int) -> str:
    """Return the id of the task that a group attempts: an instance of ``task_id``, or itself."""
    return f"{task_id}~{instance}" if instance else task_id


def instance_of(task_id: str) -> tuple[str, int]:
    """Return the arguments from which `attempted` made the id of an instance."""
    root, _, instance = task_id.rpartition("~")
    return root, int(instance)


def body_of(value: msgspec.Struct) -> msgspec.Raw:
    """Return an environment's value, encoded as the body of a message."""
    return msgspec.Raw(msgspec.msgpack.encode(value))
