"""Translates stimulus programs into the compiled harness's binary form; see ``cpp/server.cpp``."""

from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import assert_never

from coevolve.environments.hdl.stimulus.program import (
    ApplyReset,
    Await,
    Chance,
    Change,
    Drive,
    Pins,
    Program,
    Randomize,
    Repeat,
    Statement,
    Step,
    Way,
    first_state,
)


class Code(IntEnum):
    """Codes of instructions; the same as in ``server.cpp``."""

    RESET = 0
    STEP = 1
    SET = 2
    RANDOM = 3
    CHANCE = 4
    INC = 5
    ROL = 6
    INV = 7
    ONCE = 8
    WAIT = 9
    REPEAT = 10


Instruction = tuple[int, int, int, int]
"""Code, port (for a repetition: number of instructions in its body), word, count."""

CHANGES: Mapping[Way, Code] = {
    "inc": Code.INC,
    "rol": Code.ROL,
    "inv": Code.INV,
    "once": Code.ONCE,
}


def request(
    programs: Sequence[Program], pins: Pins, seed: int, mutants: Sequence[int] = (0,)
) -> bytes:
    """Return one request for all programs, each with the same seed.

    All programs run on the first of ``mutants`` of a switched design, then on the next.


    Raises KeyError where a program names a port that the design does not have.
    """
    inputs = {port.name: index for index, port in enumerate(pins.inputs)}
    outputs = {port.name: index for index, port in enumerate(pins.outputs)}
    made = [_translate(program.statements, inputs, outputs) for program in programs]
    words = array("Q", [len(mutants) * len(programs)])
    for mutant in mutants:
        for translated in made:
            words.extend((seed, mutant, first_state(seed), len(translated)))
            for instruction in translated:
                words.extend(instruction)
    return words.tobytes()


def _translate(
    statements: Sequence[Statement], inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> list[Instruction]:
    made: list[Instruction] = []
    for statement in statements:
        match statement:
            case ApplyReset(cycles=cycles):
                made.append((Code.RESET, 0, 0, cycles))
            case Step(cycles=cycles):
                made.append((Code.STEP, 0, 0, cycles))
            case Drive() | Randomize() | Chance() | Change():
                made.append(_driving(statement, inputs[statement.port]))
            case Await(port=port, word=word, cycles=cycles):
                made.append((Code.WAIT, outputs[port], word, cycles))
            case Repeat(times=times, body=body):
                inner = _translate(body, inputs, outputs)
                made.append((Code.REPEAT, len(inner), 0, times))
                made.extend(inner)
            case _:
                assert_never(statement)
    return made


def _driving(statement: Drive | Randomize | Chance | Change, port: int) -> Instruction:
    match statement:
        case Drive(word=word):
            return Code.SET, port, word, 0
        case Randomize():
            return Code.RANDOM, port, 0, 0
        case Chance(eighths=eighths):
            return Code.CHANCE, port, eighths, 0
        case Change(way=way):
            return CHANGES[way], port, 0, 0
