"""The rules that a design must satisfy before a run trains or measures on it.

Admission uses measurements only. `hdl.designs.measuring` runs the simulator and fills `Measured`;
the rules here only read it, so tests of them need no simulator. Every rule has a name, and a
refusal states what was found and what is required.

| rule                | refuses                                                                   |
|---------------------|---------------------------------------------------------------------------|
| testbench_failed    | a reference testbench that does not compile, run and finish               |
| not_deterministic   | coverage that differs between runs of the same testbench                  |
| good_covers_little  | a good testbench with low coverage: too hard, or unreachable points       |
| poor_covers_much    | a poor testbench with high coverage: nothing to learn                     |
| mid_not_between     | reference testbenches whose coverage does not rise from poor to good      |
| threshold           | a threshold that even the good testbench misses                           |
| point_count         | designs too small to measure on, or too large to run often                |
| points_not_frozen   | scores over a set of points that may change                               |
| points_changed      | RTL that was edited after its points were frozen                          |
| unreachable_covered | points marked as unreachable that some stimulus covers                    |
| random_passes       | a design that random stimulus solves                                      |
| secret_found        | a secret that long random stimulus finds, or nearly finds                 |
| few_mutants         | too few bugs to compare testbenches by                                    |
| mutant_broken       | a mutant that does not compile                                            |
| mutant_survives     | a bug that the good testbench does not show                               |
| mutant_too_easy     | a bug that the poor testbench shows                                       |
| short_specification | a specification too short to describe the design                          |
| family_split        | a family in two splits: held-out designs would resemble training designs  |
| copy                | a held-out design that shares a file with one for training                |
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from coevolve.environments.hdl.designs.design import (
    GOOD_AT_LEAST,
    POOR_AT_MOST,
    QUALITIES,
    Design,
    Quality,
)
from coevolve.environments.hdl.designs.mutants import Bugs
from coevolve.environments.hdl.simulate.messages import Coverage

ALIKE_FROM = 0.5
"""Minimum ROUGE-L F1 of two files that count as copies of one another."""


class Alike(NamedTuple):
    """Two files that are too similar."""

    file: str
    """``design/file`` of the first."""

    other: str
    f1: float


class Text(NamedTuple):
    """A file with its tokens and their counts."""

    name: str
    tokens: tuple[str, ...]
    counts: Counter[str]


def common_tokens(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    where: dict[str, int] = {}
    for position, token in enumerate(one):
        where[token] = where.get(token, 0) | 1 << position
    # Hyyrö: bit i of `row` is 0 where the subsequence grows by the token at i of `one`.
    full = (1 << len(one)) - 1
    row = full
    for token in other:
        both = row & where.get(token, 0)
        row = ((row + both) | (row - both)) & full
    return len(one) - row.bit_count()


def texts(design: Design) -> tuple[Text, ...]:
    """Return the RTL, the specification and the testbenches of a design.

    ``design.yaml`` and ``mutants.yaml`` are left out: they use the words of their schema, and no
    agent sees them.
    """
    files = {file.name: file.text for file in design.unit.files}
    files["spec.md"] = design.specification
    files |= {f"testbenches/{quality}.sv": text for quality, text in design.testbenches.items()}
    return tuple(_text(f"{design.design_id}/{name}", text) for name, text in files.items())


def copies(designs: Iterable[Design], others: Iterable[Design]) -> Iterator[Alike]:
    """Yield the pairs of a file of ``designs`` and a file of ``others`` that are copies.

    Source: ROUGE-L (Lin 2004) over tokens between whitespace, F1, as LLM4Cov (arXiv 2602.16953)
    uses it to separate its training and evaluation designs. Texts whose token counts rule out
    similarity are skipped.
    """
    against = [text for design in others for text in texts(design)]
    for one in (text for design in designs for text in texts(design)):
        for other in against:
            sizes = len(one.tokens), len(other.tokens)
            shared = sum((one.counts & other.counts).values())
            if _f1(shared, *sizes) < ALIKE_FROM:
                continue
            f1 = _f1(common_tokens(one.tokens, other.tokens), *sizes)
            if f1 >= ALIKE_FROM:
                yield Alike(one.name, other.name, f1)


def _text(name: str, text: str) -> Text:
    tokens = tuple(text.split())
    return Text(name, tokens, Counter(tokens))


def _f1(common: int, one: int, other: int) -> float:
    """Return F1 from the length of a common subsequence, 0..1; 0 if either text is empty."""
    return 2 * common / (one + other) if one and other else 0.0


FEWEST_POINTS = 100
MOST_POINTS = 1000

FEWEST_MUTANTS = 5

FEWEST_WORDS = 150
"""Minimum number of words in a specification."""

FREEZABLE = frozenset({"points_not_frozen", "points_changed"})
"""Rules that a design satisfies once its points are frozen."""

RANDOM_CYCLES = 1000
"""Cycles of a short random run."""

SECRET_MARGIN = 0.10
"""How far below the threshold the merged coverage of all long random runs has to stay, for a design
with a secret."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that a design breaks."""

    rule: str
    design_id: str
    found: str
    required: str

    def __str__(self) -> str:
        return f"{self.design_id}: {self.rule}: found {self.found}; required: {self.required}"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one reference testbench, repeated to check determinism."""

    coverages: tuple[Coverage, ...] = ()
    """Coverage of each repetition; empty where one of them failed."""

    failure: str = ""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a design that admission reads, beside the design's files."""

    count: int
    """Number of points, including the unreachable ones."""

    sha256: str
    """Hash of the points."""

    runs: dict[Quality, Run]
    bugs: dict[Quality, Bugs]
    """Killed and surviving mutants under the good and the poor testbench."""

    random: tuple[float, ...]
    """Overall average of each short random run."""

    long_random: float
    """Overall average of all long random runs together; 0 where the design has no secret."""

    covered_unreachable: tuple[str, ...] = ()
    """Points listed as unreachable that some run covered."""

    uncovered: tuple[str, ...] = ()
    """Points that no run covered and that are not listed as unreachable."""

    cpu_s: float = 0.0
    """CPU seconds of one evaluation: the median over the reference testbenches."""

    def average(self, quality: Quality) -> float:
        """Return the overall average of a reference testbench, 0 where it failed."""
        coverages = self.runs[quality].coverages
        return coverages[0].overall_average if coverages else 0.0


def refusals(design: Design, measured: Measured) -> tuple[Refusal, ...]:
    """Return the rules that one design breaks by itself; empty where it is admitted."""
    rules = (
        _running(measured),
        _ladder(design, measured),
        _points(design, measured),
        _random(design, measured),
        _mutants(design, measured),
        _specification(design),
    )
    return tuple(
        Refusal(rule=rule, design_id=design.design_id, found=found, required=required)
        for broken in rules
        for rule, found, required in broken
    )


def kept_apart(designs: Sequence[Design]) -> tuple[Refusal, ...]:
    """Return the rules that the designs break together: copies, and families in two splits."""
    train = [design for design in designs if design.file.split == "train"]
    held_out = [design for design in designs if design.file.split == "held_out"]
    alike = (
        Refusal(
            rule="copy",
            design_id=match.file.partition("/")[0],
            found=f"ROUGE-L F1 {match.f1:.2f} between {match.file} and {match.other}",
            required=f"below {ALIKE_FROM} between any file for training and any held-out one",
        )
        for match in copies(train, held_out)
    )
    return (*_families(designs), *alike)


Broken = Iterator[tuple[str, str, str]]
"""Rule, found, required."""


def _running(measured: Measured) -> Broken:
    for quality, run in measured.runs.items():
        if run.failure:
            yield "testbench_failed", f"{quality}.sv: {run.failure}", "it compiles, runs, $finishes"
        different = len({coverage.hits for coverage in run.coverages})
        if different > 1:
            runs = len(run.coverages)
            yield (
                "not_deterministic",
                f"{different} different coverages in {runs} runs of {quality}.sv",
                f"{runs} equal ones",
            )


def _ladder(design: Design, measured: Measured) -> Broken:
    if any(run.failure for run in measured.runs.values()):
        return
    poor, mid, good = (measured.average(quality) for quality in QUALITIES)
    threshold = design.file.threshold
    if good < GOOD_AT_LEAST:
        yield "good_covers_little", f"{good:.4f}", f"at least {GOOD_AT_LEAST}"
    if poor > POOR_AT_MOST:
        yield "poor_covers_much", f"{poor:.4f}", f"at most {POOR_AT_MOST}"
    if not poor < mid < good:
        yield "mid_not_between", f"{poor:.4f}, {mid:.4f}, {good:.4f}", "poor < mid < good"
    if good < threshold:
        yield "threshold", f"good.sv {good:.4f}", f"at least the threshold {threshold}"


def _points(design: Design, measured: Measured) -> Broken:
    if not FEWEST_POINTS <= measured.count <= MOST_POINTS:
        yield "point_count", str(measured.count), f"{FEWEST_POINTS} to {MOST_POINTS}"
    frozen = design.file.points
    if frozen is None:
        yield (
            "points_not_frozen",
            "no points in design.yaml",
            "coevolve hdl qualify --freeze",
        )
    elif (frozen.count, frozen.sha256) != (measured.count, measured.sha256):
        yield (
            "points_changed",
            f"{measured.count} points, {measured.sha256[:12]}",
            f"the frozen {frozen.count}, {frozen.sha256[:12]}; where the RTL was meant to change: "
            "coevolve hdl qualify --freeze",
        )
    for point in measured.covered_unreachable:
        yield "unreachable_covered", point, "points that no run covers"


def _random(design: Design, measured: Measured) -> Broken:
    threshold = design.file.threshold
    best = max(measured.random, default=0.0)
    if best >= threshold:
        yield "random_passes", f"{best:.4f} of {RANDOM_CYCLES} random cycles", f"below {threshold}"
    most = threshold - SECRET_MARGIN
    if design.file.secret and measured.long_random > most:
        found = f"{measured.long_random:.4f} of long random stimulus"
        yield "secret_found", found, f"at most {most:.4f}"


def _mutants(design: Design, measured: Measured) -> Broken:
    if len(design.mutants) < FEWEST_MUTANTS:
        yield "few_mutants", str(len(design.mutants)), f"at least {FEWEST_MUTANTS}"
    poor, good = measured.bugs.get("poor", Bugs()), measured.bugs.get("good", Bugs())
    for name in good.broken:
        yield "mutant_broken", f"{name} does not compile", "RTL that compiles"
    for name in good.survived:
        yield "mutant_survives", f"{name} with good.sv", "different outputs"
    for name in poor.killed:
        yield "mutant_too_easy", f"{name} with poor.sv", "the same outputs"


def _specification(design: Design) -> Broken:
    words = len(design.specification.split())
    if words < FEWEST_WORDS:
        yield "short_specification", f"{words} words in spec.md", f"at least {FEWEST_WORDS}"


def _families(designs: Iterable[Design]) -> Iterator[Refusal]:
    splits: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for design in designs:
        splits[design.file.family].setdefault(design.file.split, design.design_id)
    for family, by_split in splits.items():
        if len(by_split) > 1:
            named = ", ".join(f"{name} in {split}" for split, name in sorted(by_split.items()))
            yield Refusal(
                rule="family_split",
                design_id=min(by_split.values()),
                found=f"family {family}: {named}",
                required="one split for all designs of a family",
            )
