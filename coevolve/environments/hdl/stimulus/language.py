"""Parses and prints stimulus programs: one statement a line, or several with ``;`` between them.

| statement               | meaning                                                            |
|-------------------------|--------------------------------------------------------------------|
| ``rst n``               | n cycles with the reset active                                     |
| ``step n``              | n cycles                                                           |
| ``set p=v ...``         | holds inputs at values                                             |
| ``rand p ...``          | inputs are random from now on                                      |
| ``prob p=k/8 ...``      | inputs are 1 with a chance of k eighths (1..7) each cycle, else 0   |
| ``inc p ...``           | adds 1, then holds                                                 |
| ``rol p ...``           | rotates left by one bit, then holds                                |
| ``inv p ...``           | inverts, then holds                                                |
| ``once p ...``          | draws one random value, then holds                                 |
| ``rep n`` .. ``endrep`` | repeats the statements between them                                |
| ``wait p=v n``          | cycles until an output has a value, at most n                      |

Values are decimal, ``0x`` or ``0b``, or one of ``max`` (all ones), ``msb`` (the highest bit alone)
and ``alt`` (1010...). ``#`` starts a comment. `hdl.stimulus.program` defines the statements cycle
by cycle. `parse` reads the output of `format` back as the same program.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import assert_never

from coevolve.environments.hdl.simulate.messages import Port, Reset
from coevolve.environments.hdl.stimulus.program import (
    MAX_CYCLES,
    MAX_DEPTH,
    WAYS,
    ApplyReset,
    Await,
    Chance,
    Change,
    Cost,
    Drive,
    Pins,
    Program,
    Randomize,
    Repeat,
    Statement,
    Step,
    cost,
    pins,
    word_bits,
)
from coevolve.environments.sdk import described, plain, shown

WORDS = ("rst", "step", "set", "rand", "prob", *WAYS, "rep", "endrep", "wait")

MAX_CHARACTERS = 65_536

NAME_CHARACTERS = 100
"""Maximum characters of a word that is compared with the names that there are."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|0b[01]{1,64}|[0-9]{1,20}")


class StimulusError(ValueError):
    """The program does not parse, or names a port that the design does not have."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def parse(program: str, ports: Sequence[Port], clock: str, reset: Reset | None) -> Program:
    """Parse a program for a design with these ports. Raises StimulusError."""
    if len(program) > MAX_CHARACTERS:
        reason = f"a program has at most {MAX_CHARACTERS} characters, this one has {len(program)}"
        raise StimulusError(1, reason)
    reader = _Reader(pins(ports, clock, reset))
    for line, text in enumerate(program.split("\n"), 1):
        for part in text.partition("#")[0].split(";"):
            if words := part.split():
                try:
                    reader.read(line, words)
                except Exception as error:
                    expected = isinstance(error, ValueError)
                    reason = str(error) if expected else described(error)
                    raise StimulusError(line, reason) from error
    return reader.finish()


class _Reader:
    """Collects statements; a ``rep`` opens a body and ``endrep`` closes it."""

    def __init__(self, design: Pins) -> None:
        self._design = design
        self._bodies: list[list[Statement]] = [[]]
        self._open: list[tuple[int, int]] = []
        """Line and count of each open ``rep``."""
        self._spent = Cost()

    def read(self, line: int, words: Sequence[str]) -> None:
        match words:
            case ["rep", count]:
                if len(self._open) == MAX_DEPTH:
                    raise ValueError(f"a program has at most {MAX_DEPTH} nested repetitions")
                self._open.append((line, _count(count)))
                self._bodies.append([])
            case ["endrep"]:
                self._close()
            case [word, *arguments] if word in WORDS:
                for statement in _statements(word, arguments, self._design):
                    self._add(statement)
            case _:
                raise ValueError(f"{shown(words[0])} is no statement{_nearest(words[0], WORDS)}")

    def _close(self) -> None:
        if not self._open:
            raise ValueError("'endrep' needs a 'rep' before it")
        _, times = self._open.pop()
        self._add(Repeat(times=times, body=tuple(self._bodies.pop())))

    def _add(self, statement: Statement) -> None:
        self._bodies[-1].append(statement)
        if not self._open:
            self._spent += cost([statement])
            if excess := self._spent.excess():
                raise ValueError(excess)

    def finish(self) -> Program:
        if self._open:
            raise StimulusError(self._open[-1][0], "'rep' needs an 'endrep' after it")
        return Program(statements=tuple(self._bodies[0]))


def _statements(word: str, arguments: Sequence[str], design: Pins) -> Iterator[Statement]:
    match word, arguments:
        case "rst", [count]:
            if design.reset is None:
                raise ValueError("'rst' needs a reset, and this design has none")
            yield ApplyReset(cycles=_count(count))
        case "step", [count]:
            yield Step(cycles=_count(count))
        case "wait", [assignment, count]:
            name, text = _assignment(word, assignment)
            port = _find(name, design.outputs, "output", design)
            yield Await(port=name, word=_value(text, port), cycles=_count(count))
        case (("set" | "prob" | "rand" | "inc" | "rol" | "inv" | "once"), [_, *_]):
            for argument in arguments:
                yield _driving(word, argument, design)
        case _:
            raise ValueError(
                f"{_shape(word)} is required, found {shown(' '.join((word, *arguments)))}"
            )


def _driving(word: str, argument: str, design: Pins) -> Statement:
    name, text = (argument, "") if word not in ("set", "prob") else _assignment(word, argument)
    port = _find(name, design.inputs, "input", design)
    match word:
        case "set":
            return Drive(port=name, word=_value(text, port))
        case "prob":
            return Chance(port=name, eighths=_eighths(text))
        case "rand":
            return Randomize(port=name)
        case "inc" | "rol" | "inv" | "once":
            return Change(port=name, way=word)
        case _:
            raise AssertionError(word)


def _shape(word: str) -> str:
    match word:
        case "rst" | "step" | "rep":
            return f"'{word} n'"
        case "wait":
            return "'wait port=value n'"
        case "set":
            return "'set port=value ...'"
        case "prob":
            return "'prob port=k/8 ...'"
        case "endrep":
            return "'endrep' alone"
        case _:
            return f"'{word} port ...'"


def _assignment(word: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise ValueError(f"{_shape(word)} is required, found {shown(text)}")
    return name, value


def _find(name: str, among: Sequence[Port], kind: str, design: Pins) -> Port:
    for port in among:
        if port.name == name:
            return port
    if name == design.clock:
        raise ValueError(f"{name!r} is the clock; 'step n' makes n cycles of it")
    if design.reset and name == design.reset.port:
        raise ValueError(f"{name!r} is the reset; 'rst n' applies it for n cycles")
    raise ValueError(f"{shown(name)} is no {kind}{_nearest(name, [port.name for port in among])}")


def _nearest(name: str, among: Sequence[str]) -> str:
    found = get_close_matches(name[:NAME_CHARACTERS], among, 1)
    if found:
        return f"; did you mean {found[0]!r}?"
    return f"; there are {', '.join(among)}" if among else "; there are none"


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_CYCLES:
        raise ValueError(f"a count is a number from 1 to {MAX_CYCLES}, found {shown(text)}")
    return int(text)


def _eighths(text: str) -> int:
    if not re.fullmatch(r"[1-7]/8", text):
        raise ValueError(f"a chance is 1/8 to 7/8, found {shown(text)}; 'set' holds a value")
    return int(text[0])


def _value(text: str, port: Port) -> int:
    bits = word_bits(port)
    match text:
        case "max":
            return (1 << bits) - 1
        case "msb":
            return 1 << (bits - 1)
        case "alt":
            return int("10" * 32, 2) >> (64 - bits) if bits > 1 else 1
        case _ if _NUMBER.fullmatch(text):
            value = int(text, 0) if text[:2] in ("0x", "0b") else int(text)
        case _:
            raise ValueError(f"a value is a number, max, msb or alt, found {shown(text)}")
    if value >> bits:
        raise ValueError(f"{port.name!r} takes 0 to {(1 << bits) - 1}, found {plain(text)}")
    return value


def format(program: Program) -> str:
    """Return the program's text, with neighbours of one kind on one line."""
    return "".join(f"{line}\n" for line in _lines(program.statements, ""))


def _lines(statements: Sequence[Statement], indent: str) -> Iterator[str]:
    for (word, joins), group in groupby(
        map(_statement_text, statements), key=lambda each: each[:2]
    ):
        if joins:
            yield f"{indent}{word} {' '.join(text for _, _, text, _ in group)}"
            continue
        for _, _, text, body in group:
            yield f"{indent}{word} {text}"
            if body is not None:
                yield from _lines(body, indent + "  ")
                yield f"{indent}endrep"


def _statement_text(statement: Statement) -> tuple[str, bool, str, Sequence[Statement] | None]:
    """Return a statement's word, whether neighbours join it, its arguments and its body."""
    match statement:
        case ApplyReset(cycles=cycles):
            return "rst", False, str(cycles), None
        case Step(cycles=cycles):
            return "step", False, str(cycles), None
        case Drive(port=port, word=word):
            return "set", True, f"{port}={_number(word)}", None
        case Randomize(port=port):
            return "rand", True, port, None
        case Chance(port=port, eighths=eighths):
            return "prob", True, f"{port}={eighths}/8", None
        case Change(port=port, way=way):
            return way, True, port, None
        case Await(port=port, word=word, cycles=cycles):
            return "wait", False, f"{port}={_number(word)} {cycles}", None
        case Repeat(times=times, body=body):
            return "rep", False, str(times), body
        case _:
            assert_never(statement)


def _number(word: int) -> str:
    return str(word) if word < 256 else hex(word)
