"""What only several tasks show together.

*One call for all.* A tool that no such reference has, and of which one call solves more than half
of the tasks, although their references change the state with at least two tools.

*An argument that decides nothing* in any task that has it, at least two. It counts against them if
some of them says the value and has two values that pass, or if it is a truth value and both are
right in some task. Otherwise it may be meant so ("any seat"), which only the author can tell: that
is a doubt, for a number, a truth value, or one of a list.

*Further doubts.* A call without which a reference passes, although the call changes something; a
reference that only reads, for a task that asks no question, in a class whose others change the
state; and a high reward for doing nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from coevolve.environments.tools.adversary.arguments import Parameter
from coevolve.environments.tools.adversary.calls import tools_in
from coevolve.environments.tools.adversary.found import HALF, Doubt
from coevolve.environments.tools.adversary.probes import Attempt, Grading, Probe, plainest
from coevolve.environments.tools.adversary.tried import Played, Undecided
from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.task import ToolTask

SEVERAL = 2

QUESTION = re.compile(
    r"[?\uff1f]|\b(?:what|which|who|whose|whom|when|where|why|how|whether|know|tell|show|report|say)\b"
    r"|^\W*(?:please\W+|now\W+|then\W+)*(?:is|are|do|does|did|was|were|has|have|give|list|name|find|"
    r"count|check|look|read|search|get|print|display|see|query|fetch|compare|calculate|compute)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What a request for an answer has, at least in English."""

Of = tuple[int, Undecided]
"""A task's place, and an argument of its reference."""


class Across:
    """The results of all tasks of a set that no words solve, by place."""

    def __init__(
        self,
        bodies: Sequence[ToolTask],
        played: Mapping[int, Played],
        one_answer: Callable[[str], bool],
        changing: Container[str],
        decided: Container[Parameter],
        grading: Grading,
    ) -> None:
        self._bodies = bodies
        self._played = played
        self._one_answer = one_answer
        self._changing = changing
        self._decided = decided
        self._rewards = grading.rewards
        self._undecided = self._arguments()

    def by_one_call(self) -> dict[int, str]:
        """Return the tasks that calls of one tool solve, which is not their own."""
        tried, own = Counter[str](), Counter[str]()
        solved: defaultdict[str, dict[int, Attempt]] = defaultdict(dict)
        for number, played in self._played.items():
            own.update(self._tools(number))
            single = [(each, how) for each, how in played.other if len({*each.calls}) == 1]
            tried.update({tool for each, _ in single for tool in tools_in(each)})
            for attempt, how in single:
                if passes(how) and (self._rewards or played.changes):
                    solved[min(tools_in(attempt))].setdefault(number, attempt)
        return {
            number: Probe("a call that solves most tasks", [attempt]).shown
            for tool, by_task in solved.items()
            if 2 * len(by_task) > max(tried[tool] + own[tool], SEVERAL)
            and len({each for number in by_task for each in self._tools(number)}) >= SEVERAL
            for number, attempt in by_task.items()
        }

    def by_arguments(self) -> dict[int, str]:
        """Return the tasks that other values of an argument solve."""
        return {
            number: each.probe._replace(attempts=plainest(each.passing)).shown
            for parameter, found in self._undecided.items()
            for number, each in found
            if _is_shown(each) or (parameter not in self._decided and _is_meant(found))
        }

    def doubts(self, named: Container[int], idle: Mapping[int, float]) -> tuple[Doubt, ...]:
        """Return what may be wrong with tasks that are not ``named``."""
        places: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for number, what in (*self._spare_calls(), *self._free_arguments(), *self._only_read()):
            if number not in named:
                places[what][number] = None
        for number, reward in idle.items():
            if reward > HALF and number not in named:
                places["give more than half of the reward for doing nothing"][number] = None
        return tuple(Doubt(what, tuple(numbers)) for what, numbers in places.items())

    def _spare_calls(self) -> Iterator[tuple[int, str]]:
        for number, played in self._played.items():
            for call, (_, rest) in played.idle_parts:
                tool = call.partition("(")[0]
                if _adds(played, rest) if self._rewards else self._one_answer(tool):
                    yield number, f"pass without a call of their reference, {tool}()"

    def _free_arguments(self) -> Iterator[tuple[int, str]]:
        for (tool, name), found in self._undecided.items():
            alike = [(number, each) for number, each in found if each.passing and _is_short(each)]
            if (tool, name) not in self._decided and len({n for n, _ in alike}) >= SEVERAL:
                for number, _ in alike:
                    yield number, f"pass with any {name!r} of {tool}()"

    def _only_read(self) -> Iterator[tuple[int, str]]:
        if self._rewards or not any(played.changes for played in self._played.values()):
            return
        for number, played in self._played.items():
            asked = "\n".join(turn.instruction for turn in self._bodies[number].turns)
            if played.passes and not played.changes and not QUESTION.search(asked):
                yield number, "ask no question, and have a reference that only reads"

    def _arguments(self) -> Mapping[Parameter, Sequence[Of]]:
        """Return the undecided arguments, those of tools whose answers can tell nothing."""
        found: defaultdict[Parameter, list[Of]] = defaultdict(list)
        for number, played in self._played.items():
            for each in played.undecided:
                tool, name = each.parameter
                if each.passing and (self._rewards or self._one_answer(tool)):
                    found[tool, name].append((number, each))
        return found

    def _tools(self, number: int) -> set[str]:
        """Return the tools of a task's reference that change the state."""
        return {
            tool
            for attempt, _ in self._played[number].reference
            for tool in tools_in(attempt)
            if tool in self._changing
        }


def _adds(played: Played, rest: Tried) -> bool:
    """Return whether the reference ends in another state than ``rest``, a part of it."""
    return rest.turns[-1].state not in [how.turns[-1].state for _, how in played.reference]


def _is_shown(each: Undecided) -> bool:
    return each.changed.variants.said and len(each.passing) >= SEVERAL


def _is_meant(found: Sequence[Of]) -> bool:
    """Return whether tasks mean the value that an argument has: at least two tasks have it."""
    values = [each.changed.variants.slot.argument.value for _, each in found]
    both = {True, False} <= {value for value in values if isinstance(value, bool)}
    several = len({number for number, _ in found}) >= SEVERAL
    return several and (both or any(_is_shown(each) for _, each in found))


def _is_short(each: Undecided) -> bool:
    """Return whether the value is a number, a truth value, or one of a list."""
    variants = each.changed.variants
    return variants.listed or isinstance(variants.slot.argument.value, int | float)
