"""Attacks on the grader: a trick must not increase the coverage.

The author of files with names that start with ``h`` had read the grader; the author of the others
had not.

In each file of ``attacks/`` the trick is between ``// trick {`` and ``// trick }``; without it the
rest is an honest testbench of the design in the first line. Attacks that the gate accepts are
graded with and without the trick: every text gets a grade, and the trick must not earn more.
"""

import asyncio
import re
import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.gate.source import violations
from coevolve.environments.hdl.simulate.messages import (
    Evaluate,
    Evaluated,
    SimulationLimits,
    Testbench,
)
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator

pytestmark = [pytest.mark.hdl, pytest.mark.timeout(900)]

FILES = Path(__file__).parent / "attacks"
ROOT = Path(__file__).parents[4]
TRICK = re.compile(r"^// trick \{.*?^// trick \}\n?", re.MULTILINE | re.DOTALL)
AT_ONCE = 2
CHUNKS = 4
"""Number of tests over which the attacks on coverage are divided."""

BOMB_LIMITS = SimulationLimits(cpu_s=1.0, memory_mb=300, slots=2000, compile_cpu_s=3.0, wall_s=40.0)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One file of ``attacks/``."""

    name: str
    design: str
    aim: str
    text: str

    @property
    def honest(self) -> str:
        """Return the testbench without its trick."""
        return TRICK.sub("", self.text)


@cache
def attacks() -> list[Attack]:
    found: list[Attack] = []
    for path in sorted(FILES.glob("*.sv")):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        head = re.match(r"// design: (\w+)\r?\n// aim: (\w+)", text)
        assert head, path
        found.append(Attack(name=path.stem, design=head[1], aim=head[2], text=text))
    return found


def chunks() -> list[list[Attack]]:
    """Divide the attacks on coverage; those on the same honest testbench stand together."""
    found = sorted((each for each in attacks() if each.aim != "machine"), key=lambda a: a.honest)
    ends = [len(found) * number // CHUNKS for number in range(CHUNKS + 1)]
    return [found[start:end] for start, end in pairwise(ends)]


@pytest.fixture(scope="module")
def designs() -> dict[str, Design]:
    return {design.design_id: design for design in load_all(ROOT / "designs")}


@pytest.fixture(scope="module")
def simulator() -> VerilatorSimulator:
    return open_simulator()


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_tricks_earn_nothing(
    simulator: VerilatorSimulator, designs: dict[str, Design], chunk: int, each: int
) -> None:
    turn = asyncio.Semaphore(AT_ONCE)
    honest: dict[str, asyncio.Task[Evaluated]] = {}

    async def graded(attack: Attack, text: str) -> Evaluated:
        async with turn:
            unit = designs[attack.design].unit
            return await simulator.evaluate(Evaluate(unit=unit, submission=Testbench(text=text)))

    async def faults(attack: Attack) -> list[str]:
        if violations(attack.text, designs[attack.design].unit):
            return []
        with_trick = await graded(attack, attack.text)
        if attack.honest not in honest:
            honest[attack.honest] = asyncio.create_task(graded(attack, attack.honest))
        plain = await honest[attack.honest]
        told = msgspec.json.encode(with_trick.outcome).decode()
        found = [f"tells {place}" for place in (str(ROOT), sys.prefix) if place in told]
        if with_trick.reward > plain.reward:
            found.append(f"earns {with_trick.reward:.4f} in place of {plain.reward:.4f}")
        return [f"{attack.name} {fault}" for fault in found]

    async def every() -> list[str]:
        mine = chunks()[chunk][::each]
        assert mine
        return [fault for found in await asyncio.gather(*map(faults, mine)) for fault in found]

    assert asyncio.run(every()) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [each.name for each in attacks() if each.aim == "machine"])
def test_every_attack_is_graded(
    simulator: VerilatorSimulator, designs: dict[str, Design], name: str
) -> None:
    attack = next(each for each in attacks() if each.name == name)
    unit, submission = designs[attack.design].unit, Testbench(text=attack.text)
    request = Evaluate(unit=unit, submission=submission, limits=BOMB_LIMITS)
    told = msgspec.json.encode(asyncio.run(simulator.evaluate(request)).outcome).decode()
    assert str(ROOT) not in told
    assert sys.prefix not in told
