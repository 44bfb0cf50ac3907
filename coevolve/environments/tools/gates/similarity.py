"""Near-duplicates: tasks that teach or test the same as another task.

The similarity of two tasks is the larger of these two (Jaccard similarities of sets):

- *the same request*: the words of the instructions together with the calls of the references, over
  all turns. It counts only if the requests name something. A request without any name or argument
  ("List what is here." -> ``ls()``) depends on the place where it is asked, so only the second
  similarity counts;
- *the same work in the same place*: the calls, if the worlds (paths and contents) reach the
  threshold too, with any wording.

So the same request in another world is a near-duplicate if it names the same things. A paraphrase
is one if it asks for the same calls in the same world or shares nearly all its words. The same
words without slots in another world are not.

A task can also hide within another: a held-out request as one turn of a longer task, or the first
turn of a held-out conversation alone. So two tasks *overlap* if each turn of one that names
something has the same request (same words, same calls) as some turn of the other, or asks for
the same calls in words of its own (`tools.gates.asked`).

`Likenesses` finds near-duplicates with an inverted index. A set with similarity t to a query shares
at least a fraction t of the query's features, so it contains one of the rarest fraction 1 - t of
them (prefix filtering, Chaudhuri et al. 2006). Only tasks with one of these are compared.
"""

import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from coevolve.environments.tools.gates.asked import Asked, GivenTurns, asked_by, is_name, numbered
from coevolve.environments.tools.gates.reading import ReadCall, leaves, read_call, tools_of
from coevolve.environments.tools.gates.worlds import facts
from coevolve.environments.tools.task import ToolTask, asked_in, read_body
from coevolve.environments.tools.wordings import wordings_of
from coevolve.validation.gates import Match
from protocols.tasks import Task

KeyT = TypeVar("KeyT", bound=Hashable)

Shared = Mapping[str, tuple[set[int], set[int]]]
"""Task -> turns of another one, and of its own, that are the same."""

ROUNDING = 1e-9
"""Tolerance for a product that should be whole; without it 0.7 * 10 requires 8 of 10."""

SAME_REQUEST = 0.8
"""Similarity from which seed tasks and held-out tasks overlap; made tasks use the validator's."""

MIN_SHARED = 5
CONTAINED = 0.9
"""Minimum number and share of the words of a held-out request, without calls, in one that leaks."""

_WORD = re.compile(r"\w+(?:[.\-]\w+)*")


class Likeness(NamedTuple):
    """The features of a task that are compared."""

    request: frozenset[str]
    """Words of the instructions, and calls."""

    calls: frozenset[str]
    world: frozenset[str]

    names: bool
    """Whether the calls have arguments that mean something outside their world."""

    turns: tuple[frozenset[str], ...] = ()
    """Words and calls of each turn whose calls have such arguments."""

    asked: tuple[Asked, ...] = ()
    """What each of these turns asks for; none if the reference has no calls of tools."""

    whole: Asked | None = None
    """What they ask for together."""


def likeness(body: ToolTask) -> Likeness:
    """Return the features of a task. Its calls must be readable."""
    tools = tools_of(body.classes)
    turns = [[read_call(text, tools) for text in turn.reference] for turn in body.turns]
    calls = _shared(numbered(call.text() for turn in turns for call in turn))
    words = {word for turn in body.turns for word in said_in(turn.instruction)}
    named = [_names(turn) for turn in turns]
    wordings = {each.turn: each.text for each in wordings_of(body)}
    said = "\n".join(turn.instruction for turn in body.turns)
    here = [number for number, names in enumerate(named) if names]
    return Likeness(
        request=_shared(words) | calls,
        calls=calls,
        world=_shared(facts(body)),
        names=any(named),
        turns=tuple(
            _shared((*said_in(asked_in(body, number)), *numbered(call.text() for call in read)))
            for number, read in enumerate(turns)
            if named[number]
        ),
        asked=tuple(asked_by([wordings[number]], turns[number], said) for number in here),
        whole=asked_by(
            [wordings[number] for number in here],
            [call for each in here for call in turns[each]],
            said,
        ),
    )


def said_in(instruction: str) -> frozenset[str]:
    return frozenset(f"said {word}" for word in _WORD.findall(instruction.lower()))


def _names(calls: Iterable[ReadCall]) -> bool:
    values = (
        value for call in calls for argument in call.arguments for value in leaves(argument.value)
    )
    return any(map(is_name, values))


class Likenesses:
    """A `coevolve.validation.gates.TaskIndex` of tasks with tools."""

    def __init__(
        self, threshold: float, features: Callable[[ToolTask], Likeness] = likeness
    ) -> None:
        """Look for tasks with a similarity of ``threshold`` or more; it is in (0, 1].

        ``features`` returns what is compared of a task.
        """
        self._threshold = threshold
        self._features = features
        self._known: dict[str, Likeness] = {}
        self._having: defaultdict[str, set[str]] = defaultdict(set)
        self._turns_having: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self._given, self._given_whole = GivenTurns(), GivenTurns()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Add a task under ``key``; it replaces the task that has this key."""
        self.remember(key, self._features(read_body(body)))

    def remember(self, key: str, known: Likeness) -> None:
        """Add a task by its features, like `add`."""
        self.discard(key)
        self._known[key] = known
        for feature in known.request | known.calls:
            self._having[feature].add(key)
        for number, turn in enumerate(known.turns):
            for feature in turn:
                self._turns_having[feature].add((key, number))
        self._count(key, known, 1)

    def discard(self, key: str) -> None:
        """Remove a task; an unknown key is no error."""
        known = self._known.pop(key, None)
        for feature in known.request | known.calls if known else ():
            self._having[feature].discard(key)
        for number, turn in enumerate(known.turns if known else ()):
            for feature in turn:
                self._turns_having[feature].discard((key, number))
        if known:
            self._count(key, known, -1)

    def _count(self, key: str, known: Likeness, number: int) -> None:
        """Add (``number`` 1) or remove (-1) what a task asks for."""
        for place, turn in enumerate(known.asked):
            self._given.count((key, place), turn, number)
        if known.whole:
            self._given_whole.count((key, 0), known.whole, number)

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return the most similar task, or None if none reaches the threshold."""
        return self.nearest_to(self._features(read_body(body)))

    def nearest_to(self, asked: Likeness) -> Match | None:
        """Return the most similar task for given features, like `nearest`."""
        return max(self._matches(asked), key=lambda match: match[::-1], default=None)

    def alike(self, body: msgspec.Raw) -> frozenset[str]:
        """Return the keys of all tasks that reach the threshold, or overlap."""
        asked = self._features(read_body(body))
        return frozenset((*(match.key for match in self._matches(asked)), *self._overlaps(asked)))

    def _matches(self, asked: Likeness) -> Iterator[Match]:
        yield from self._same_work(asked)
        if asked.names:
            yield from self._same_request(asked)

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        """Return a task that overlaps with the given one; None if there is none."""
        features = self._features(read_body(body))
        whole = self._given_whole.same(features.whole, alone=False) if features.whole else ()
        same = self._overlapping(features, self._asking_the_same(features))
        key = min((*self._overlaps(features), *same, *(key for key, _ in whole)), default=None)
        return None if key is None else Match(key, 1.0)

    def shares_requests(self, body: msgspec.Raw) -> bool:
        """Return whether a task overlaps with one by words and calls together.

        Given tasks are told apart so: two of a benchmark may need the same calls.
        """
        return any(self._overlaps(self._features(read_body(body))))

    def _overlaps(self, asked: Likeness) -> Iterator[str]:
        yield from self._overlapping(asked, self._shared_turns(asked))

    def _overlapping(self, asked: Likeness, shared: Shared) -> Iterator[str]:
        for key, (mine, its) in shared.items():
            if len(mine) == len(asked.turns) or len(its) == len(self._known[key].turns):
                yield key

    def _asking_the_same(self, features: Likeness) -> Shared:
        """Return by task which turns of ``features``, and which of its own, are the same.

        Turns in the words of given tasks are compared as `_shared_turns` does.
        """
        shared = defaultdict(lambda: (set[int](), set[int]()), self._shared_turns(features))
        for number, turn in enumerate(features.asked):
            for key, its in self._given.same(turn, alone=True):
                shared[key][0].add(number)
                shared[key][1].add(its)
        if not features.asked:
            self._add_contained(features, shared)
        return shared

    def _add_contained(self, features: Likeness, shared: Shared) -> None:
        """Add the turns that hold nearly all words of a known one, which has no calls of tools."""
        for key, known in self._known.items():
            for its, words in enumerate(known.turns):
                for number, turn in enumerate(features.turns):
                    if len(words & turn) >= max(MIN_SHARED, CONTAINED * len(words)):
                        shared[key][0].add(number)
                        shared[key][1].add(its)

    def _shared_turns(self, asked: Likeness) -> Shared:
        """Return by task which turns of ``asked``, and which of its own, are the same."""
        shared: defaultdict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for number, turn in enumerate(asked.turns):
            for key, its in self._rarest(turn, self._turns_having):
                if _jaccard(turn, self._known[key].turns[its]) >= self._threshold:
                    shared[key][0].add(number)
                    shared[key][1].add(its)
        return shared

    def _same_request(self, asked: Likeness) -> Iterable[Match]:
        for key in self._rarest(asked.request, self._having):
            degree = _jaccard(asked.request, self._known[key].request)
            if degree >= self._threshold:
                yield Match(key, degree)

    def _same_work(self, asked: Likeness) -> Iterable[Match]:
        for key in self._rarest(asked.calls, self._having):
            known = self._known[key]
            degree = _jaccard(asked.calls, known.calls)
            if degree >= self._threshold and (
                _jaccard(asked.world, known.world) >= self._threshold
            ):
                yield Match(key, degree)

    def _rarest(self, features: frozenset[str], having: Mapping[str, set[KeyT]]) -> set[KeyT]:
        """Return what may share as many of ``features`` as the threshold requires."""
        shared = math.ceil(self._threshold * len(features) - ROUNDING)
        few = len(features) - shared + 1
        rarest = sorted(features, key=lambda feature: len(having.get(feature, ())))[:few]
        return set[KeyT]().union(*(having.get(feature, set()) for feature in rarest))


class Leaks:
    """Tells which tasks overlap with held-out ones."""

    def __init__(
        self,
        held_out: Iterable[Task],
        similarity: float = SAME_REQUEST,
        features: Callable[[ToolTask], Likeness] = likeness,
    ) -> None:
        """Compare ``features`` with ``held_out``; requests are the same from ``similarity`` on."""
        self._held_out = Likenesses(similarity, features)
        for task in held_out:
            self._held_out.add(task.task_id, task.body)

    def __call__(self, task: Task) -> bool:
        """Return whether training on the task would show a held-out request."""
        return self._held_out.overlapping(task.body) is not None


def _shared(features: Iterable[str]) -> frozenset[str]:
    """Return the features; equal ones of all tasks are one object, which saves memory."""
    return frozenset(map(sys.intern, features))


def _jaccard(one: frozenset[Hashable], other: frozenset[Hashable]) -> float:
    shared = len(one & other)
    union = len(one) + len(other) - shared
    return shared / union if union else 1.0
