"""Fills the part of a synthesis request that has instructions and exploration starts."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from coevolve.environments.tools.cells import JOIN
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.synthesis.brief import Start, ToolContext, start_of
from coevolve.environments.tools.task import read_body, tool_task
from coevolve.synthesis.briefs import seed_of
from protocols.config import RunConfig
from protocols.evolution import SKILL, OnPattern, OnTask, Signal
from protocols.synthesis import Anything, Attempt, Brief
from protocols.tasks import Task, body_of


def tool_of(call: str) -> tuple[str, ...]:
    """Return the tool of a call."""
    return (call.partition("(")[0].strip(),)


class ToolBriefs:
    """A `coevolve.synthesis.briefs.BriefContext` of one run."""

    def __init__(
        self,
        config: RunConfig,
        *,
        source: ToolSource,
        called: Callable[[str], Iterable[str]] = tool_of,
    ) -> None:
        """Explore worlds of ``source``; ``called`` returns the tools that a call uses."""
        self._config = config
        self._source = source
        self._called = called

    def context(self, signal: Signal, task: Task | None) -> msgspec.Raw:
        """Return a `ToolContext`; it contains no part of a reference."""
        turns = tool_task(task).turns if task else ()
        return body_of(
            ToolContext(
                instructions=tuple(turn.instruction for turn in turns),
                starts=self._starts(signal, task),
            )
        )

    def practises(self, brief: Brief, task: Task | None, body: msgspec.Raw) -> bool:
        """Return whether the reference calls a tool that the attempts at the brief's subject lack.

        Of the turn in which most attempts at a task failed, these are the tools that no failed
        attempt called there; if there are none, all of the turn. Only a brief about a task or a
        skill that was forgotten or never solved asks for this, the latter for a single turn
        besides. A body that cannot be read is left to the gates.
        """
        if brief.kind not in ("forgetting", "unsolved") or isinstance(brief.about, Anything):
            return True
        try:
            turns = read_body(body).turns
        except msgspec.MsgspecError:
            return True
        if brief.kind == "unsolved" and len(turns) > 1:
            return False
        called = {tool for turn in turns for call in turn.reference for tool in self._called(call)}
        lacking = self._lacked(brief, task)
        return not lacking or not lacking.isdisjoint(called)

    def _lacked(self, brief: Brief, task: Task | None) -> set[str]:
        """Return the tools of which a candidate has to call one; none if any will do."""
        match brief.about:
            case OnTask() if task is not None:
                return self._lacking(brief.attempts, task)
            case OnPattern(kind=kind, pattern=pattern) if kind == SKILL:
                return set(pattern.split(JOIN))
            case _:
                return set()

    def _lacking(self, attempts: Sequence[Attempt], task: Task) -> set[str]:
        """Return the tools that failed attempts lack in their turn; all of it if they lack none."""
        failed = Counter(each.turns_passed for each in attempts if not each.succeeded)
        turns = tool_task(task).turns
        turn = failed.most_common(1)[0][0] if failed else len(turns)
        if turn >= len(turns):
            return set()
        needed = {tool for call in turns[turn].reference for tool in self._called(call)}
        tried = {
            tool
            for each in attempts
            if not each.succeeded and each.turns_passed == turn
            for action in each.actions
            if action.turn == turn and not action.failed
            for tool in self._called(action.text)
        }
        return needed - tried or needed

    def _starts(self, signal: Signal, task: Task | None) -> tuple[Start, ...]:
        """Return a start for each round; the flagged task's own world is the first."""
        numbers = (
            seed_of(self._config.seed, signal.signal_id, f"start {round_}")
            for round_ in range(self._config.synthesizer.rounds - (task is not None))
        )
        own = () if task is None else (start_of(task),)
        return (*own, *map(self._source.start, numbers))
