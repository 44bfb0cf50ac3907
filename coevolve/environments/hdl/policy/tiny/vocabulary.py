"""The words of the tiny hardware policy, one token each, and the sizes of its model.

A port's word is its index among the inputs or outputs of a stimulus program, so words have the same
meaning on every design. Ports beyond `SLOTS`, and constants of the specification beyond
`CONSTANTS`, have no word.
"""

from typing import Literal

from coevolve.environments.hdl.simulate.messages import CODE_METRICS
from coevolve.environments.sdk import word_config

TINY_HDL = "tiny_hdl"
"""Name of the policy in a run file; its model folder is made in the run's folder at the start."""

SLOTS = 12
CONSTANTS = 12
ROUNDS = 8
TENTHS = 10
STATES = 16
PLACES = 12
"""Number of parts into which a design's lines, branches, conditions and inner signals are
divided."""

PAD = 0
MARKS = ("<pad>", "<ports>", "<covered>", "<missed>", "<edit>")

Mode = Literal["zero", "held", "random", "chance"]
MODES: tuple[Mode, ...] = ("zero", "held", "random", "chance")
"""Modes in which a program leaves an input. ``zero``: held at 0; ``held``: at another value."""

LEAST_BITS = (1, 2, 4, 9, 17)
"""Lower bounds of classes of port widths."""

Kind = Literal["set", "rand", "prob", "inc", "rol", "inv", "once", "seq", "wait"]
KINDS: tuple[Kind, ...] = ("set", "rand", "prob", "inc", "rol", "inv", "once", "seq", "wait")
SMALL = (0, 1, 2, 3)
CORNERS = ("max", "msb", "alt")
EIGHTHS = (1, 4, 7)
STEPS = (1, 2, 4, 8)
RUNS = (1, 8, 64, 256, 1024)
LOOPS = (4, 16, 64)

INPUTS = tuple(f"in{n}" for n in range(SLOTS))
ALL = "all"
"""Every input that has a word; for statements that count, every one of several bits."""

OUTPUTS = tuple(f"out{n}" for n in range(SLOTS))
VALUES = (*(f"={n}" for n in SMALL), *(f"={c}" for c in CORNERS))
NAMED = tuple(f"=c{n}" for n in range(CONSTANTS))
"""Words for constants of the specification."""

WORDS = (
    *MARKS,
    *INPUTS,
    *OUTPUTS,
    ALL,
    *(f"{mode}{bits}" for bits in LEAST_BITS for mode in MODES),
    *(f"round{n}" for n in range(ROUNDS)),
    *(f"{metric}{n}" for metric in CODE_METRICS for n in range(TENTHS + 1)),
    *(f"state{n}" for n in range(STATES)),
    *(f"arc{n}" for n in range(STATES)),
    *(f"{what}_at{n}" for what in ("line", "branch", "expr", "toggle") for n in range(PLACES)),
    *KINDS,
    "rst",
    "off",
    "on",
    *(f"step{n}" for n in STEPS),
    *VALUES,
    *NAMED,
    *(f"{n}/8" for n in EIGHTHS),
    *(f"run{n}" for n in RUNS),
    *(f"loop{n}" for n in LOOPS),
)
PLAN_WORDS = (
    *(f"plan{n}" for n in range(TENTHS + 1)),
    *(f"plan_at{n}" for n in range(PLACES)),
)
"""Words of runs whose rewards count plans; models of other runs have no embeddings for them."""

IDS = {word: number for number, word in enumerate((*WORDS, *PLAN_WORDS))}
LAST = tuple(IDS[word] for word in (*(f"run{n}" for n in RUNS), *(f"loop{n}" for n in LOOPS)))
"""Tokens that end an edit."""

MODEL = word_config(len(WORDS), list(LAST), hidden=128, layers=2, positions=128)
"""Of 0.4 million parameters."""
