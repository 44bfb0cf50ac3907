"""The cells of a domain, and the tasks that practise them.

A cell is a tool, a *link* (an ordered pair of tools, with a mode of its own) or a *chain* of two
links. Links do not teach each other, and a chain is solved only if its tools and links are. The
request of a task names the tools; the modes have to be known:

    do07 thing12 then do31      tool07(thing='thing12'), tool31(mode='mode5')

Every eighth chain is for held-out tasks alone. Every cell is scored on things of its own: a fifth
of its pairs with a thing is for scores, a tenth for the guard's tasks, the others for training.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.toolbox.settings import ToolboxConfig
from coevolve.environments.tools.toolbox.words import (
    OK,
    THEN,
    THINGS,
    TOOLS,
    VERBS,
    mode_of,
    number_of,
)

CLASS = "coevolve.environments.tools.toolbox.tools:Toolbox"

LENGTHS = ("tool", "link", "chain")
"""Names of cells by their number of tools, from 1."""

_DOMAIN_STREAM = 1
_HELD_OUT = 8
"""One chain in this number is held out."""

Use = Literal["trained", "watched", "scored"]
"""What a pair of a cell and a thing is for."""

_OTHER_USES: tuple[Use, ...] = ("watched", "scored", "scored")
"""Of every tenth pair each; the others are trained."""

Cell = tuple[str, ...]
"""One to three tools, in the order of their calls."""


@dataclass(frozen=True, eq=False)
class Domain:
    """The cells of a domain."""

    number: int
    cells: tuple[Cell, ...]
    """All cells, the tools first."""

    trained: tuple[Cell, ...]
    """Those that training tasks may practise."""

    popularity: npt.NDArray[np.float64]
    """Of each trained cell; sums to 1."""

    def free(self, rng: np.random.Generator) -> Cell:
        """Return a trained cell by its popularity."""
        return self.trained[int(rng.choice(len(self.trained), p=self.popularity))]

    def task(self, cell: Cell, thing: str) -> ToolTask:
        """Return the task to apply the cell's tools to a thing."""
        request = _request(cell, thing)
        return ToolTask(
            classes=(CLASS,),
            world=msgspec.json.encode({CLASS: {"domain": self.number, "order": request}}).decode(),
            turns=(
                ToolTurn(
                    instruction=request,
                    reference=tuple(self._calls(cell, thing)),
                    results=(OK,) * len(cell),
                ),
            ),
        )

    def _calls(self, cell: Cell, thing: str) -> Iterator[str]:
        yield f"{cell[0]}(thing={thing!r})"
        for first, second in _links(cell):
            yield f"{second}(mode={mode_of(self.number, first, second)!r})"


@lru_cache(maxsize=8)
def domain_of(settings: ToolboxConfig) -> Domain:
    """Return the domain of these settings; equal seeds and sizes give equal domains."""
    rng = np.random.default_rng((settings.domain, _DOMAIN_STREAM))
    tools = TOOLS[: settings.tools]
    rank = rng.permutation(len(tools)) + 1.0
    popular = dict(zip(tools, rank**-settings.tail, strict=True))
    links = _drawn_links(tools, settings.links, rng)
    cells = (*((tool,) for tool in tools), *links, *_drawn_chains(links, settings.chains, rng))
    trained = tuple(cell for cell in cells if not is_held_out(cell))
    weights = np.array([np.prod([popular[t] for t in cell]) ** (1 / len(cell)) for cell in trained])
    return Domain(settings.domain, cells, trained, weights / weights.sum())


def is_held_out(cell: Cell) -> bool:
    """Return whether only held-out tasks may have the cell."""
    return len(cell) == len(LENGTHS) and number_of(" ".join(cell)) % _HELD_OUT == 0


def use_of(cell: Cell, thing: str) -> Use:
    """Return what the cell's task on this thing is for."""
    if is_held_out(cell):
        return "scored"
    tenth = number_of(" ".join((*cell, thing))) % 10
    return _OTHER_USES[tenth] if tenth < len(_OTHER_USES) else "trained"


def thing_for(cell: Cell, use: Use, rng: np.random.Generator, but: str = "") -> str:
    """Draw a thing for a cell, but not the one named."""
    others = [each for each in things(cell, use) if each != but]
    return others[int(rng.integers(len(others)))]


def cell_of(instruction: str) -> tuple[Cell, str]:
    """Return the tools that a request names, and its thing. Raises ValueError if it is none."""
    verb, _, rest = instruction.partition(" ")
    thing, *others = rest.split(f" {THEN} ")
    cell = tuple(TOOLS[VERBS.index(each)] for each in (verb, *others))
    if _request(cell, thing) != instruction or len(cell) > len(LENGTHS):
        raise ValueError(f"no request of a toolbox: {instruction!r}")
    return cell, thing


@lru_cache(maxsize=1 << 14)
def things(cell: Cell, use: Use) -> tuple[str, ...]:
    """Return the things on which the cell's tasks are for this use; there may be none."""
    return tuple(each for each in THINGS if use_of(cell, each) == use)


def skills_of(cell: Cell) -> tuple[str, ...]:
    """Return what a cell needs: its tools and its links, for example ``tool07>tool31``."""
    return (*cell, *(">".join(link) for link in _links(cell)))


def _request(cell: Cell, thing: str) -> str:
    first, *others = (VERBS[TOOLS.index(tool)] for tool in cell)
    return f" {THEN} ".join((f"{first} {thing}", *others))


def _links(cell: Cell) -> Iterator[tuple[str, str]]:
    return pairwise(cell)


def _drawn_links(tools: Sequence[str], number: int, rng: np.random.Generator) -> list[Cell]:
    pairs = [(one, other) for one in tools for other in tools if one != other]
    order = rng.permutation(len(pairs))[:number]
    return [pairs[int(each)] for each in order]


def _drawn_chains(links: Sequence[Cell], number: int, rng: np.random.Generator) -> list[Cell]:
    chains = [(*one, other[1]) for one in links for other in links if one[1] == other[0]]
    chains = [chain for chain in chains if chain[0] != chain[2]]
    order = rng.permutation(len(chains))[:number]
    return [chains[int(each)] for each in order]
