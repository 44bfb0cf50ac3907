"""Fills the part of a synthesis request that has instructions and exploration starts."""

import msgspec

from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.synthesis.brief import Start, ToolContext, start_of
from coevolve.environments.tools.task import tool_task
from coevolve.synthesis.briefs import seed_of
from protocols.config import RunConfig
from protocols.evolution import Signal
from protocols.tasks import Task, body_of


class ToolBriefs:
    """A `coevolve.synthesis.briefs.BriefContext` of one run."""

    def __init__(self, config: RunConfig, *, source: ToolSource) -> None:
        self._config = config
        self._source = source

    def context(self, signal: Signal, task: Task | None) -> msgspec.Raw:
        """Return a `ToolContext`; it contains no part of a reference."""
        turns = tool_task(task).turns if task else ()
        return body_of(
            ToolContext(
                instructions=tuple(turn.instruction for turn in turns),
                starts=self._starts(signal, task),
            )
        )

    def _starts(self, signal: Signal, task: Task | None) -> tuple[Start, ...]:
        """Return a start for each round; the flagged task's own world is the first."""
        numbers = (
            seed_of(self._config.seed, signal.signal_id, f"start {round_}")
            for round_ in range(self._config.synthesizer.rounds - (task is not None))
        )
        own = () if task is None else (start_of(task),)
        return (*own, *map(self._source.start, numbers))
