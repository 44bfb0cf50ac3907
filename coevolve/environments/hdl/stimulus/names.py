"""Names the signals, tasks and variables of a testbench so that no two are the same."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from coevolve.environments.hdl.simulate.messages import Port
from coevolve.environments.hdl.stimulus.program import (
    WORD_BITS,
    ApplyReset,
    Chance,
    Change,
    Program,
    Randomize,
    Repeat,
    Statement,
)


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What each thing of a testbench is called; what the program does not use is not in it."""

    signal: dict[str, str]
    """By port; the port's own name but where that is the module's or the instance's."""

    word: dict[str, str]
    """By port, what a program assigns to: the signal, but where that is wider than a word."""

    random: dict[str, str]
    """By port, the variable that says that it is random."""

    chance: dict[str, str]
    """By port, the variable that has its chance in eighths."""

    tick: str
    reset: str
    draw: str
    state: str
    draws: bool
    """Whether the program needs random words."""

    resets: bool


def names(program: Program, ports: Sequence[Port], *, clocked: bool) -> Names:
    """Name everything that a testbench of the program needs; ports come first."""
    taken = {"tb", "dut", ""}

    def fresh(wanted: str) -> str:
        while wanted in taken:
            wanted += "_"
        taken.add(wanted)
        return wanted

    signal = {each.name: fresh(each.name) for each in ports}
    wide = {each.name for each in ports if each.width > WORD_BITS}
    used = tuple(_flat(program.statements))
    random = _ports(used, Randomize)
    chance = _ports(used, Chance)
    once = any(isinstance(each, Change) and each.way == "once" for each in used)
    return Names(
        signal=signal,
        word={
            name: fresh(f"{name}_word") if name in wide else told for name, told in signal.items()
        },
        random={name: fresh(f"random_{name}") for name in random},
        chance={name: fresh(f"chance_{name}") for name in chance},
        tick=fresh("tick" if clocked else "settle"),
        reset=fresh("apply_reset"),
        draw=fresh("draw"),
        state=fresh("rng"),
        draws=bool(random or chance or once),
        resets=any(isinstance(each, ApplyReset) for each in used),
    )


def _ports(used: Iterable[Statement], kind: type[Randomize] | type[Chance]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.port for each in used if isinstance(each, kind)))


def _flat(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        if isinstance(statement, Repeat):
            yield from _flat(statement.body)
