"""Chooses unique names for the signals, tasks and variables of a testbench."""

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
    """The names in a testbench; only for what the program uses."""

    signal: dict[str, str]
    """Signal by port; equal to the port's name unless the module or the instance has that name."""

    word: dict[str, str]
    """Variable by port that the program assigns to; the signal unless it is wider than a word."""

    random: dict[str, str]
    """Variable by port that says whether the port is random."""

    chance: dict[str, str]
    """Variable by port that holds its chance in eighths."""

    tick: str
    reset: str
    draw: str
    state: str
    draws: bool
    """Whether the program needs random words."""

    resets: bool


def names(program: Program, ports: Sequence[Port], *, clocked: bool) -> Names:
    """Return names for everything that a testbench of the program needs; ports come first."""
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
            name: fresh(f"{name}_word") if name in wide else its_signal
            for name, its_signal in signal.items()
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
