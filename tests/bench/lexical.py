"""Trades right requests against wrong ones, for readers without a language model.

The cases are those of `tests.meant`; counted are those that pass the executed gates. *Policy* is
the tiny policy: the probability of a turn's wording (file system only). *Words* learns which word
goes with which tool (IBM's model 1) from the tools' documentation and the benchmark's training
tasks. Its two scores are the margin of a turn's words for the reference over the best other tools,
and its least expected word. A curve has, for shares of the right requests that a threshold lets
through, the share of the wrong ones that it lets through as well.
"""

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType

from coevolve.config.load import load_config
from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.stock import CLASSES
from coevolve.environments.tools.gates.forms import words
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.gates.reading import read_call, tools_of
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.gates.wording import QUOTED, values_of
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body, tool_task
from coevolve.validation.gates import Sound
from tests.bench import output
from tests.meant.cases import GOOD, Suite, cases
from tests.planted import candidate
from tests.simulated import InProcessSimulator
from tests.spoiling.calibration import unrecorded_reader

Lesson = tuple[list[str], list[str]]
"""Words, and the tools that they go with."""

ROUNDS = 8
ANY = ""
"""Stands for no tool."""

UNKNOWN = 1e-5
"""Probability of a word that was never seen."""

SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What one score lets through, of all cases of a suite."""

    suite: str
    score: str
    right: int
    wrong: int
    points: tuple[tuple[int, int], ...]
    """Right and wrong ones let through, by the shares in `SHARES` of the right ones."""


def _content(instruction: str, values: Iterable[object]) -> list[str]:
    """Return the words of an instruction without names, numbers and the values of calls."""
    text = QUOTED.sub(" ", instruction)
    for value in sorted((str(each) for each in values), key=len, reverse=True):
        if len(value) > 1:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", " ", text)
    return [_stem(word) for word in words(text).split() if word.isalpha()]


def _stem(word: str) -> str:
    return re.sub(r"(?:ing|ed|es|s|e)$", "", word) or word


def _lesson(turn: ToolTurn, classes: Sequence[str]) -> Lesson:
    calls = [read_call(call, tools_of(tuple(classes))) for call in turn.reference]
    return _content(turn.instruction, values_of(calls)), [call.tool for call in calls]


def _lessons() -> Iterator[Lesson]:
    for name, document in tools_of(CLASSES).items():
        own = document.description.rpartition("Tool description: ")[2]
        yield _content(f"{words(name)} {own}", ()), [name]
    for task in load_tasks(("base", "miss_func", "miss_param")):
        body = tool_task(task)
        for turn in body.turns if task.split == "train" else ():
            if turn.reference:
                yield _lesson(turn, body.classes)


class Words:
    """Which word goes with which tool."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        seen = Counter(word for said, _ in lessons for word in said)
        self._common = {word: count / seen.total() for word, count in seen.items()}
        self._of_tool: Mapping[str, Mapping[str, float]] = {}
        for _ in range(ROUNDS):
            self._of_tool = self._learnt(lessons)

    def _learnt(self, lessons: Sequence[Lesson]) -> Mapping[str, Mapping[str, float]]:
        counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for said, tools in lessons:
            for word in said:
                shares = [self._one(word, tool) for tool in (*tools, ANY)]
                for tool, share in zip((*tools, ANY), shares, strict=True):
                    counts[tool][word] += share / sum(shares)
        return {
            tool: {
                word: (n + 2 * self._common[word]) / (sum(found.values()) + 2)
                for word, n in found.items()
            }
            for tool, found in counts.items()
        }

    def _one(self, word: str, tool: str) -> float:
        common = self._common.get(word, UNKNOWN) / 2
        return self._of_tool.get(tool, {}).get(word, common)

    def surprise(self, word: str, tools: Sequence[str]) -> float:
        """Return the log probability of a word with these tools."""
        shares = [self._one(word, tool) for tool in (*tools, ANY)]
        return math.log(sum(shares) / len(shares))

    def margin(self, body: ToolTask) -> float:
        """Return the least margin of a turn's own tools over the best other ones."""
        return min(self._margin(*_lesson(turn, body.classes), body) for turn in body.turns)

    def _margin(self, said: Sequence[str], tools: Sequence[str], body: ToolTask) -> float:
        others = [
            [*tools[:place], *new, *tools[place + 1 :]]
            for place in range(len(tools))
            for new in ([], *([name] for name in tools_of(body.classes) if name != tools[place]))
        ]
        return self._total(said, tools) - max(self._total(said, other) for other in others)

    def _total(self, said: Sequence[str], tools: Sequence[str]) -> float:
        return sum(self.surprise(word, tools) for word in said)

    def least_expected(self, body: ToolTask) -> float:
        """Return the least log probability of a word of the instructions."""
        lessons = [_lesson(turn, body.classes) for turn in body.turns]
        return min(self.surprise(word, tools) for said, tools in lessons for word in said)


async def _curves(suite: Suite, learnt: Words) -> list[Curve]:
    gates = ToolGates(InProcessSimulator(), calls_per_turn=20)
    every = [(each, (await gates.examine(candidate(each.body))).outcome) for each in cases(suite)]
    right = sum(case.kind == GOOD for case, _ in every)
    sound = [
        (case.kind == GOOD, read_body(outcome.body))
        for case, outcome in every
        if isinstance(outcome, Sound)
    ]

    def curve(name: str, score: Callable[[ToolTask], float]) -> Curve:
        scored = [(is_right, score(body)) for is_right, body in sound]
        points = tuple(points_of([s for r, s in scored if r], [s for r, s in scored if not r]))
        return Curve(suite=suite, score=name, right=right, wrong=len(every) - right, points=points)

    found = [curve("margin", learnt.margin), curve("least expected word", learnt.least_expected)]
    if suite == "filesystem":
        wordings = [await _wording(body) for _, body in sound]
        by_body = {id(body): each for (_, body), each in zip(sound, wordings, strict=True)}
        found.append(curve("policy's wording", lambda body: by_body[id(body)]))
    return found


_POLICY = unrecorded_reader(load_config("quickstart"))


async def _wording(body: ToolTask) -> float:
    """Return the probability that the tiny policy gives the wording; 0 if it cannot read it."""
    assert _POLICY is not None
    asked = candidate(body)
    trials = Trials(InProcessSimulator(), asked.candidate_id, body)
    return (await _POLICY.read(asked, body, trials)).agreement


def points_of(right: Sequence[float], wrong: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the right and wrong ones that thresholds let through, by the shares in `SHARES`."""
    ordered = sorted(right, reverse=True)
    for share in SHARES:
        limit = ordered[math.ceil(share * len(ordered)) - 1]
        yield sum(each >= limit for each in right), sum(each >= limit for each in wrong)


async def measure() -> tuple[Curve, ...]:
    """Return the curves of both suites."""
    learnt = Words(list(_lessons()))
    return (*await _curves("filesystem", learnt), *await _curves("functions", learnt))


def drawn(curves: Iterable[Curve]) -> RenderableType:
    """Return a table of the curves."""
    rows = [
        [curve.suite, curve.score, *(f"{right} / {wrong}" for right, wrong in curve.points)]
        for curve in curves
    ]
    heads = ("suite", "score", *(f"right {share:.0%} / wrong" for share in SHARES))
    return Group(output.table("let through", heads, rows))


def main(arguments: list[str]) -> None:
    """Measure and print."""
    given = output.parser_of("lexical", __doc__).parse_args(arguments)
    output.show(asyncio.run(measure()), drawn, as_json=given.json)
