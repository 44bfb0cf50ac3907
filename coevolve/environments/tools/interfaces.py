"""What the parts of an environment with tools may ask of one another."""

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
        """Carry out ``commands`` in order and return one reply each.

        Never raises for what a command or the child does: a dead or stuck child is replaced, and
        the sessions that it held answer ``Broken`` from then on until they are reset.
        """
        ...


class Simulator(Protocol):
    """The simulator pool, from a rollout's point of view.

    All raise SimulatorError where the machine failed: the rollout fails.
    """

    async def reset(self, session: str, task: ToolTask) -> None:
        """Open a session on a fresh world."""
        ...

    async def act(self, session: str, text: str) -> Observed:
        """Carry out one call."""
        ...

    async def grade(self, session: str, words: str = "") -> Verdict:
        """End the turn and compare it with the reference, or judge the policy's last words."""
        ...

    async def release(self, session: str) -> None:
        """Forget the session."""
        ...

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        """Play calls turn by turn in a world of their own and judge every turn."""
        ...


class Renderer(Protocol):
    """Turns what is said into tokens and sampled tokens into what is meant."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a generation."""
        ...

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        """Tokens of everything up to the policy's first word: tools and the first instruction."""
        ...

    def instruction(self, task: ToolTask, turn: int) -> tuple[int, ...]:
        """Tokens of what begins the turn ``turn`` (from 1), up to the policy's next word."""
        ...

    def observation(self, results: Sequence[str]) -> tuple[int, ...]:
        """Tokens of the answers to all calls of one message, up to the policy's next word."""
        ...

    def parse(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """Return the calls of one message, to be carried out in order, in the simulator's words.

        Empty where the policy ended its turn. Raises ValueError where it is neither.
        """
        ...

    def words(self, token_ids: Sequence[int]) -> str:
        """Return what one message says, without special tokens. Raises ValueError as `parse`."""
        ...

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference, as the policy would have produced it.

        Both have the same length; the mask is 1 on what the policy is to write.
        """
        ...


class ToolSource(TaskSource, Protocol):
    """A source of tasks with tools."""

    def start(self, number: int) -> Start:
        """Return the run's state ``number`` of the training split to explore from."""
        ...
