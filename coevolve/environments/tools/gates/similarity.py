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

`Likenesses` finds near-duplicates with an inverted index. A set with similarity t to a query shares
at least a fraction t of the query's features, so it contains one of the rarest fraction 1 - t of
them (prefix filtering, Chaudhuri et al. 2006). Only tasks with one of these are compared.
"""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import msgspec

from coevolve.environments.tools.gates.reading import leaves, read_call, tools_of
from coevolve.environments.tools.gates.worlds import facts
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.validation.gates import Match

ROUNDING = 1e-9
"""Tolerance for a product that should be whole; without it 0.7 * 10 requires 8 of 10."""

_WORD = re.compile(r"\w+(?:[.\-]\w+)*")


class Likeness(NamedTuple):
    """The features of a task that are compared."""

    request: frozenset[str]
    """Words of the instructions, and calls."""

    calls: frozenset[str]
    world: frozenset[str]

    names: bool
    """Whether the calls have arguments that mean something outside their world."""


def likeness(body: ToolTask) -> Likeness:
    """Return the features of a task. Its calls must be readable."""
    tools = tools_of(body.classes)
    read = [read_call(text, tools) for turn in body.turns for text in turn.reference]
    calls = _shared(_numbered(call.text() for call in read))
    words = {word for turn in body.turns for word in _WORD.findall(turn.instruction.lower())}
    values = [
        value for call in read for argument in call.arguments for value in leaves(argument.value)
    ]
    return Likeness(
        request=_shared(f"said {word}" for word in words) | calls,
        calls=calls,
        world=_shared(facts(body)),
        names=any(len(str(value).strip("./")) > 1 for value in values),
    )


class Likenesses:
    """A `coevolve.validation.gates.TaskIndex` of tasks with tools."""

    def __init__(self, threshold: float) -> None:
        """Look for tasks with a similarity of ``threshold`` or more; it is in (0, 1]."""
        self._threshold = threshold
        self._known: dict[str, Likeness] = {}
        self._having: defaultdict[str, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, body: msgspec.Raw) -> None:
        """Add a task under ``key``; it replaces the task that has this key."""
        self.remember(key, likeness(read_body(body)))

    def remember(self, key: str, known: Likeness) -> None:
        """Add a task by its features, like `add`."""
        self.discard(key)
        self._known[key] = known
        for feature in known.request:
            self._having[feature].add(key)

    def discard(self, key: str) -> None:
        """Remove a task; an unknown key is no error."""
        known = self._known.pop(key, None)
        for feature in known.request if known else ():
            self._having[feature].discard(key)

    def nearest(self, body: msgspec.Raw) -> Match | None:
        """Return the most similar task, or None if none reaches the threshold."""
        return self.nearest_to(likeness(read_body(body)))

    def nearest_to(self, asked: Likeness) -> Match | None:
        """Return the most similar task for given features, like `nearest`."""
        matches = [*self._same_work(asked)]
        if asked.names:
            matches += self._same_request(asked)
        return max(matches, key=lambda match: match.degree, default=None)

    def _same_request(self, asked: Likeness) -> Iterable[Match]:
        for key in self._sharing(asked.request):
            degree = _jaccard(asked.request, self._known[key].request)
            if degree >= self._threshold:
                yield Match(key, degree)

    def _same_work(self, asked: Likeness) -> Iterable[Match]:
        for key in self._sharing(asked.calls):
            known = self._known[key]
            degree = _jaccard(asked.calls, known.calls)
            if degree >= self._threshold and (
                _jaccard(asked.world, known.world) >= self._threshold
            ):
                yield Match(key, degree)

    def _sharing(self, features: frozenset[str]) -> set[str]:
        """Return the tasks that may share as many of ``features`` as the threshold requires."""
        shared = math.ceil(self._threshold * len(features) - ROUNDING)
        few = len(features) - shared + 1
        rarest = sorted(features, key=lambda feature: len(self._having.get(feature, ())))[:few]
        return set[str]().union(*(self._having.get(feature, ()) for feature in rarest))


def _shared(features: Iterable[str]) -> frozenset[str]:
    """Return the features; equal ones of all tasks are one object, which saves memory."""
    return frozenset(map(sys.intern, features))


def _jaccard(one: frozenset[Hashable], other: frozenset[Hashable]) -> float:
    shared = len(one & other)
    union = len(one) + len(other) - shared
    return shared / union if union else 1.0


def _numbered(texts: Iterable[str]) -> Iterable[str]:
    """Yield each text with its number of occurrences so far, so that equal calls differ."""
    seen = Counter[str]()
    for text in texts:
        seen[text] += 1
        yield f"call {seen[text]} {text}"
