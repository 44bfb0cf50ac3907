"""The report of an evaluation: its JSON, and the printed tables."""

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Group
from rich.table import Table

from coevolve.environments.hdl.evaluation.attempts import AGENTIC, DIRECT, FIRST
from coevolve.environments.hdl.evaluation.comparing import DesignScores
from coevolve.environments.hdl.evaluation.measures import (
    MEASURES,
    Difference,
    Measure,
    Score,
    difference,
    mean_score,
)
from coevolve.environments.hdl.simulate.messages import SubmissionForm
from coevolve.environments.sdk import ModelUsage, score_of
from protocols.tasks import Split

SPLITS: tuple[tuple[Split, str], ...] = (
    ("train", "seen designs"),
    ("held_out", "held-out designs"),
)
HEADINGS: dict[Measure, str] = {
    "sim_pass": "sim pass",
    "cov_pass": "Pass@1",
    "pass_at_5": "Pass@5",
    "coverage": "coverage",
    "plan": "plan",
    "bugs": "bugs",
    "mutation": "mutation",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The writer of the testbenches, and the settings of the evaluation."""

    writer: str
    form: SubmissionForm
    calls: int
    """Maximum simulator calls of one attempt."""

    attempts: int
    """n: attempts at each design; deterministic generators make one."""

    seed: int
    temperature: float
    memory: str
    toolchain: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of a model behind an endpoint."""

    answers: int
    prompt_tokens: int
    answer_tokens: int
    usd: float


class SplitScores(msgspec.Struct, frozen=True, kw_only=True):
    """Mean scores of all kinds of attempts at the designs of one split."""

    split: Split
    designs: int
    scores: dict[str, Score]
    std_errors: dict[str, dict[Measure, float]]
    """Standard errors of the scores, over the choice of designs; without measures left out."""

    differences: tuple[Difference, ...]
    """Agentic minus each other kind with as many calls, and direct minus each baseline."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole evaluation; shares are 0..1."""

    settings: Settings
    splits: tuple[SplitScores, ...]
    designs: tuple[DesignScores, ...]
    cost: Cost | None
    """None without an endpoint."""


def cost_of(usage: ModelUsage) -> Cost:
    """Return the final cost."""
    return Cost(
        answers=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        answer_tokens=usage.answer_tokens,
        usd=usage.cost_usd,
    )


def summed_up(designs: Sequence[DesignScores], seed: int) -> tuple[SplitScores, ...]:
    """Return the scores of each split that has designs."""
    found = [[each for each in designs if each.split == split] for split, _ in SPLITS]
    return tuple(
        SplitScores(
            split=members[0].split,
            designs=len(members),
            scores={
                way: mean_score([each.scores[way] for each in members]) for way in members[0].scores
            },
            std_errors={way: _std_errors(members, way) for way in members[0].scores},
            differences=tuple(_differences(members, seed)),
        )
        for members in found
        if members
    )


def _std_errors(members: Sequence[DesignScores], way: str) -> dict[Measure, float]:
    """Return the standard errors of the mean scores of one kind of attempts."""
    found: dict[Measure, float] = {}
    for measure in MEASURES:
        values = [(each.design, getattr(each.scores[way], measure)) for each in members]
        if known := [(design, value) for design, value in values if value is not None]:
            found[measure] = score_of(known).std_error
    return found


def _differences(members: Sequence[DesignScores], seed: int) -> Iterator[Difference]:
    scores = [each.scores for each in members]
    equal = [way for way in scores[0] if way != FIRST]
    for of in (AGENTIC, DIRECT):
        for minus in equal[equal.index(of) + 1 :]:
            for measure in MEASURES:
                found = difference(of, minus, measure, scores, seed)
                if found is not None:
                    yield found


def tables(report: Report) -> Group:
    """Return the printed tables, in per cent."""
    settings, shown = report.settings, dict(SPLITS)
    parts: list[Table | str] = [
        f"{settings.writer}: {settings.form}, n = {settings.attempts} attempts at each design, "
        f"{settings.calls} calls of the simulator each, memory {settings.memory}, "
        f"temperature {settings.temperature:g}, seed {settings.seed}"
    ]
    for split in report.splits:
        name = f"{split.designs} {shown[split.split]}"
        parts += [_scores(split, name), _gains(split, name)]
        parts.append(_by_design([each for each in report.designs if each.split == split.split]))
    if report.cost is not None:
        cost = report.cost
        parts.append(
            f"{cost.answers} answers, {cost.prompt_tokens} prompt tokens, "
            f"{cost.answer_tokens} answer tokens, {cost.usd:.4f} USD"
        )
    return Group(*parts)


def _scores(split: SplitScores, name: str) -> Table:
    table = Table("way", title=f"{name}, % ± standard error", title_justify="left")
    for heading in ("calls", *HEADINGS.values()):
        table.add_column(heading, justify="right")
    for way, score in split.scores.items():
        errors = split.std_errors[way]
        shares = (_with_error(getattr(score, x), errors.get(x)) for x in HEADINGS)
        table.add_row(way, f"{score.calls:.1f}", *shares)
    return table


def _gains(split: SplitScores, name: str) -> Table:
    table = Table("difference", title=f"{name}, points with 95 % intervals", title_justify="left")
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right")
    cells: dict[str, dict[Measure, str]] = {}
    for each in split.differences:
        ends = f"{100 * each.mean:+.1f} [{100 * each.low:+.1f}, {100 * each.high:+.1f}]"
        cells.setdefault(f"{each.of} - {each.minus}", {})[each.measure] = ends
    for row, found in cells.items():
        table.add_row(row, *(found.get(measure, "-") for measure in HEADINGS))
    return table


def _by_design(members: Sequence[DesignScores]) -> Table:
    ways = list(members[0].scores)
    table = Table(
        "design",
        title=f"by design: {', '.join(HEADINGS.values())}, %",
        title_justify="left",
    )
    table.add_column("threshold", justify="right")
    for way in ways:
        table.add_column(way, justify="right")
    for each in members:
        cells = (
            " ".join(_share(getattr(each.scores[way], measure), 0) for measure in HEADINGS)
            for way in ways
        )
        table.add_row(each.design, _share(each.threshold, 0), *cells)
    return table


def _with_error(value: float | None, std_error: float | None) -> str:
    if std_error is None:
        return _share(value)
    return f"{_share(value)} \N{PLUS-MINUS SIGN} {_share(std_error)}"


def _share(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"
