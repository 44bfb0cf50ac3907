"""Finds the ``$stop`` by which a testbench ends its stimulus, though it has a ``$finish`` too.

Many testbenches end by ``$stop``, and have a ``$finish`` only in a watchdog: a process that waits
and drives nothing. A ``$stop`` is such an end if no condition decides on it, its process is an
``initial`` one that is no watchdog, and each ``$finish`` is in one that is. Any other ``$stop``
beside a ``$finish`` says that something failed. The text is read by its tokens, as the gate does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from coevolve.environments.hdl.gate.tokens import Positions, Word, read

_PROCESSES = frozenset({"initial", "always", "always_ff", "always_comb", "always_latch", "final"})
_CONDITIONS = frozenset(
    {
        *("if", "else", "for", "foreach", "while", "repeat", "forever", "do", "assert", "assume"),
        *("cover", "task", "function", "property", "wait_order", "randsequence"),
    }
)
_OPEN = {"begin": True, "fork": False, "case": False, "casez": False, "casex": False}
"""Words that open a block, and whether what is in it happens whenever the block does."""

_CLOSE = frozenset({"end", "join", "join_any", "join_none", "endcase"})
_DRIVING = frozenset({"=", "<=", "->", "++", "--", "+="})
_BEFORE_CALL = frozenset({";", "begin", "end", "fork", "initial", ")"})


@dataclass(kw_only=True)
class _Process:
    """What ends a run in one process."""

    initial: bool
    drives: bool = False
    finishes: bool = False
    stops: list[Word] = field(default_factory=list[Word])
    """Each ``$stop`` that no condition decides on."""


def endings(testbench: str) -> frozenset[int]:
    """Return the lines of the ``$stop`` by which the testbench ends its stimulus."""
    words, _ = read(testbench)
    processes = list(_processes(words))
    if any(each.finishes and each.drives for each in processes):
        return frozenset()
    positions = Positions(testbench.encode())
    return frozenset(
        positions.of(stop.offset)[0]
        for each in processes
        if each.initial and each.drives
        for stop in each.stops
    )


def _processes(words: Sequence[Word]) -> Iterator[_Process]:
    """Yield the processes, and one for all that is outside of them."""
    outside = _Process(initial=False, drives=True)
    yield outside
    at = 0
    while at < len(words):
        if words[at].keyword and words[at].name in _PROCESSES:
            process = _Process(initial=words[at].name == "initial")
            at = _read_process(words, at + 1, process)
            yield process
        else:
            outside.finishes |= words[at].name == "$finish"
            at += 1


def _read_process(words: Sequence[Word], at: int, process: _Process) -> int:
    """Read one process into ``process``; return the index behind it."""
    blocks: list[bool] = []
    plain, brackets = True, 0
    while at < len(words):
        word = words[at]
        brackets += (word.name in ("(", "[", "{")) - (word.name in (")", "]", "}"))
        if word.name in _OPEN and word.keyword:
            blocks.append(plain and _OPEN[word.name])
            plain = blocks[-1]
        elif word.name in _CLOSE and word.keyword:
            if blocks:
                blocks.pop()
            plain = blocks[-1] if blocks else True
        elif word.name == ";" and not brackets:
            plain = blocks[-1] if blocks else True
        elif word.keyword and word.name in _CONDITIONS:
            plain = False
        else:
            _note(words, at, process, plain=plain)
        at += 1
        closed = word.name in _CLOSE or (word.name == ";" and not brackets)
        if closed and not blocks and not (at < len(words) and words[at].name in ("else", ":")):
            return at
    return at


def _note(words: Sequence[Word], at: int, process: _Process, *, plain: bool) -> None:
    word = words[at]
    if word.name == "$stop" and plain:
        process.stops.append(word)
    process.finishes |= word.name == "$finish"
    process.drives |= word.name in _DRIVING
    if word.kind == "word" and not word.keyword and words[at - 1].name in _BEFORE_CALL:
        called = words[at + 1].name if at + 1 < len(words) else ""
        process.drives |= called in ("(", ";")
