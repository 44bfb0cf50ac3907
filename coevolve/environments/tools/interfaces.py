"""The interfaces between the parts of an environment with tools."""

from collections.abc import Sequence
from typing import Protocol

from coevolve.environments.tools.commands import Command, Observed, Reply, Tried, Verdict
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.task import ToolTask
from protocols.interfaces import TaskSource
from protocols.tasks import Task


class SimulatorWorker(Protocol):
    """One member of the simulator pool: many sessions, one child process."""

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        """Execute ``commands`` in order and return one reply for each.

        It raises no error for anything that a command or the child does. It replaces a dead or
        stuck child, whose sessions then answer ``Broken`` until they are reset.
        """
        ...


class OwnedWorker(SimulatorWorker, Protocol):
    """A `SimulatorWorker` in the process of its owner."""

    @property
    def last_error(self) -> str:
        """Return the last failure of the machine; empty if there was none."""
        ...

    @property
    def restarts(self) -> int:
        """Number of processes that were replaced."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds of the worker's processes."""
        ...

    async def close(self) -> None:
        """End the worker's processes."""
        ...


class Simulator(Protocol):
    """The simulator pool, as an agent uses it.

    All methods raise SimulatorError if the machine failed; the rollout then fails.
    """

    async def reset(self, session: str, task: ToolTask) -> None:
        """Open a session with a new world."""
        ...

    async def act(self, session: str, text: str) -> Observed:
        """Execute one call."""
        ...

    async def grade(self, session: str, words: str = "") -> Verdict:
        """End the turn and compare it with the reference, or judge the policy's last words."""
        ...

    async def release(self, session: str) -> None:
        """Remove the session."""
        ...

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        """Play calls turn by turn in a separate world and grade every turn."""
        ...


class Renderer(Protocol):
    """Converts messages to tokens, and sampled tokens to calls and words."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a generation."""
        ...

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        """Return the tokens of tools and first instruction, up to the policy's first word."""
        ...

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the tokens at the start of turn ``turn`` (from 1), up to the next answer.

        ``said`` is the policy's last message, whose end they continue; empty: it ended well.
        """
        ...

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the tokens of the answers to one message's calls, up to the policy's next word.

        ``said`` is that message, as for `instruction`.
        """
        ...

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the calls of one message in order, as the simulator's call expressions.

        ``classes`` are those of the task. Empty if the policy ended its turn. Raises
        MalformedCallsError if the message begins a call that cannot be read, and another
        ValueError if it is no message.
        """
        ...

    def words(self, token_ids: Sequence[int]) -> str:
        """Return the text of one message without special tokens. Raises ValueError as `parse`."""
        ...

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference, as the policy would produce it.

        Both have the same length; the mask is 1 on the tokens that the policy should write.
        """
        ...


class ToolSource(TaskSource, Protocol):
    """A source of tasks with tools."""

    def start(self, number: int) -> Start:
        """Return the run's exploration start ``number``; it belongs to the training split."""
        ...
