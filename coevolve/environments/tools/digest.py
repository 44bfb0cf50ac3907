"""Digests of a whole state: equal in every process if no read of the state tells two apart.

A digest covers all that an object holds: its attributes, the slots of its class and of all bases,
and what a base written in C holds, as content or as the parts that pickle takes. It refuses an
object that has more than that, such as a lock, a file or a generator (`tools.contents`).

What is equal:

- Values of other types differ, as a tool's answer shows them: ``1``, ``1.0`` and ``True`` differ,
  and so do ``0.0`` and ``-0.0``, a list and a tuple, a class and its subclass. NaN equals NaN.
- The order of a list, a deque or an OrderedDict counts. The order of the entries of any other dict
  does not, nor does that of a set, as in their own comparison: a policy may set the same keys in
  another order than the reference.
- Two places that hold one object equal two places that hold equal ones. Cycles may be of any form;
  two are equal if every walk through them finds the same values.
- Private attributes and caches count, because a later call can show them.
- A function or a class that its module names equals itself only. Other functions, such as lambdas,
  are compared by their code, their defaults and the values that they enclose.

What is not covered: attributes of classes, variables of modules, and members of an Enum that were
changed, because none of them belongs to one session.
"""

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import Any, cast

from coevolve.environments.tools.contents import (
    PLAIN,
    Contents,
    Kind,
    RefusedError,
    by_name,
    contents,
)
from protocols.errors import SimulatorError

DIGEST_BYTES = 16

DEFINE_STATE = "define state(), which returns what to compare"

STATE = "state()"
"""The place of a state that a class returns itself."""

MAX_OBJECTS = 1_000_000
"""Maximum number of objects of a state."""

MAX_CYCLE_WORK = 2_000_000
"""Maximum number of hashes for objects that lead to a cycle: their number times the rounds. A list
of 1,000 nodes that are linked both ways needs half of it."""


class EndlessStateError(Exception):
    """A state is too large to walk, or cannot be walked to its end."""


def digest(state: object, place: str = "self") -> str:
    """Return the digest of a state; empty if it is too large.

    ``place`` names the state in an error.

    Raises:
        SimulatorError: The state holds an object that cannot be compared.
    """
    try:
        return _Graph(state, place).digest().hex()
    except EndlessStateError:
        return ""


def text_digest(text: str) -> str:
    """Return a short digest of a text: equal for equal texts, in every process."""
    return _hash((text.encode("utf-8", "surrogatepass"),)).hex()


def _hash(parts: Iterable[bytes]) -> bytes:
    """Return the digest of ``parts``; the length of each separates it from the next."""
    found = list(parts)
    content = f"{[*map(len, found)]}".encode() + b"".join(found)
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class _Graph:
    """All objects that a state holds, numbered from its root."""

    def __init__(self, state: object, place: str) -> None:
        """Walk the state. Raises SimulatorError, EndlessStateError."""
        self._place = place
        self._numbers: dict[int, int] = {}
        self._objects: list[object] = []
        self._found: list[tuple[int, int]] = []
        """For each object the number of the one that holds it, and its position there."""
        self._nodes: list[tuple[bytes, Kind, list[bytes | int]]] = []
        """For each object its label, and its parts: plain values, and numbers of objects. The
        first one holds the state alone."""
        self._number((state,), 0, 0)
        while (number := len(self._nodes)) < len(self._objects):
            if len(self._objects) > MAX_OBJECTS:
                raise EndlessStateError
            held = self._contents(number)
            parts = [
                to_bytes(part)
                if (to_bytes := PLAIN.get(cast("type[Any]", type(part))))
                else self._number(part, number, position)
                for position, part in enumerate(held.parts)
            ]
            self._nodes.append((held.label, held.kind, parts))

    def digest(self) -> bytes:
        """Return the digest of the root, from those of the objects that it holds."""
        done: dict[int, bytes] = {}
        left: list[int] = []
        for number in range(len(self._nodes) - 1, -1, -1):  # in a tree, parts have higher numbers
            try:
                done[number] = self._hashed(number, done)
            except KeyError:
                left.append(number)
        if left:
            self._finish(left, done)
        return done[0] if 0 in done else self._refined(done)

    def _finish(self, left: list[int], done: dict[int, bytes]) -> None:
        """Add the digests of all objects that lead to no cycle."""
        holders: dict[int, list[int]] = {number: [] for number in left}
        waits: dict[int, int] = {}
        for number in left:
            parts = [p for p in self._nodes[number][2] if isinstance(p, int) and p in holders]
            waits[number] = len(parts)
            for part in parts:
                holders[part].append(number)
        ready = [number for number, count in waits.items() if not count]
        while ready:
            number = ready.pop()
            done[number] = self._hashed(number, done)
            for holder in holders[number]:
                waits[holder] -= 1
                if not waits[holder]:
                    ready.append(holder)

    def _refined(self, done: dict[int, bytes]) -> bytes:
        """Return the digest of a root that leads to a cycle.

        Each round tells apart the objects whose parts the last one told apart, until no more
        are: the digests of all then determine every walk from the root.
        """
        left = [number for number in range(len(self._nodes)) if number not in done]
        now, told = dict.fromkeys(left, b""), 0
        for _ in range(MAX_CYCLE_WORK // len(left)):
            last = done | now
            now = {number: self._hashed(number, last) for number in left}
            different = sorted(set(now.values()))
            if len(different) == told:
                return _hash((now[0], *different))
            told = len(different)
        raise EndlessStateError

    def _hashed(self, number: int, done: dict[int, bytes]) -> bytes:
        """Return the digest of an object whose parts are done. Raises KeyError if one is not."""
        label, kind, parts = self._nodes[number]
        found = [done[part] if isinstance(part, int) else part for part in parts]
        match kind:
            case Kind.ORDERED:
                return _hash((label, *found))
            case Kind.SET:
                return _hash((label, *sorted(found)))
            case Kind.MAPPING:
                pairs = sorted(zip(found[::2], found[1::2], strict=True))
                return _hash((label, *chain.from_iterable(pairs)))

    def _number(self, value: object, holder: int, position: int) -> bytes | int:
        """Return the number of an object, new or not; as bytes what a module names."""
        if (number := self._numbers.get(id(value))) is not None:
            return number
        if named := by_name(value):
            return named
        self._numbers[id(value)] = number = len(self._objects)
        self._objects.append(value)
        self._found.append((holder, position))
        return number

    def _contents(self, number: int) -> Contents:
        value = self._objects[number]
        try:
            return contents(value)
        except RefusedError as error:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            remedy = "leave it out of state()" if self._place == STATE else DEFINE_STATE
            raise SimulatorError(
                f"{self._path(number)}: the tools hold a {kind}, which cannot be compared; {remedy}"
            ) from error

    def _path(self, number: int) -> str:
        steps: list[str] = []
        while number > 1:  # the number of the state itself
            number, position = self._found[number]
            held = contents(self._objects[number])
            steps.append(held.step(held.parts, position))
        return "".join((self._place, *reversed(steps)))
