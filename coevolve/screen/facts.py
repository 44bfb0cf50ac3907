"""Facts on one or a few lines, which the live screen and the end of a run share."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from coevolve.history.progress import Progress
from coevolve.history.score import Score
from coevolve.screen.lines import line, wrapped

NAME = 17
"""Columns of a name."""

Fact = tuple[str, str]
"""A name and what is to be said of it."""

GAP = 2
"""Columns between those of scores."""

NEWEST = ("std error", "tasks")
WITH_INTERVAL = ("std error", "95 % interval", "tasks")
"""Headings of what a table says of the newest version's scores."""


def fact_line(fact: Fact) -> Text:
    """Return a fact on one line, however long."""
    name, words = fact
    return line((f"{name:<{NAME}} ", ""), (words, ""))


def fact_lines(fact: Fact, width: int) -> list[Text]:
    """Return a fact on as many lines of ``width`` columns as it takes."""
    name, words = fact
    first, *rest = wrapped(" " * (NAME + 1), words, "", width)
    return [line((f"{name:<{NAME}} ", ""), (first.plain[NAME + 1 :], "")), *rest]


def summed(counts: Mapping[str, int]) -> str:
    """Return a sum with its parts, the largest first; without a sum if there is one part."""
    parts = sorted(counts.items(), key=lambda each: -each[1])
    words = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in parts)
    return f"{sum(counts.values()):,} ({words})" if len(parts) > 1 else words or "0"


def made(progress: Progress) -> list[Fact]:
    """Return what the loop found, made and refused; nothing before its first signal."""
    found = _counts(progress, "signal/")
    if not found:
        return []
    waiting = sum(found.values()) - progress.count("synth/")
    admitted = summed(_counts(progress, "validator/admit/"))
    return [
        ("signals found", f"{summed(found)}; {waiting} open"),
        ("tasks made", f"parked {progress.count('validator/parked')}, admitted {admitted}"),
        ("tasks refused", summed(_counts(progress, "validator/reject/"))),
    ]


def noise(scores: Iterable[Score]) -> float:
    """Return, in percent, the smallest change of a score that its curve draws at full height."""
    return 2 * 100 * max(each.std_error for each in scores)


def score_tables(
    progress: Progress, width: int, of: str = "", newest: Sequence[str] = WITH_INTERVAL
) -> list[Text]:
    """Return the lines of all `Progress.tables`; ``of`` begins their titles."""
    lines: list[Text] = []
    for name, scores in progress.tables.items():
        if found := score_lines(f"{of}{name}, %", scores, width, newest):
            lines += [*([line()] if lines else []), *found]
    return lines


def score_lines(
    title: str,
    scores: Mapping[int, Mapping[str, Score]],
    width: int,
    newest: Sequence[str] = NEWEST,
) -> list[Text]:
    """Return scores in percent, a line for each label and a column for each version that fits.

    If not all versions fit, these are the first one and the newest ones. The last columns are
    ``newest``. [] without scores.
    """
    versions = sorted(scores)
    labels = _score_cells(scores)
    if not labels:
        return []
    first = min(max(len(title), *map(len, labels)), width // 2)
    column = len(f"step {versions[-1]}") + GAP
    ends = [len(name) + GAP for name in newest]
    if width - first - sum(ends) < 2 * column:
        ends = []
    shown = _shown_versions(len(versions), (width - first - sum(ends)) // column)
    head = "".join(f"{f'step {versions[each]}':>{column}}" for each in shown)
    head += "".join(f"{name:>{room}}" for name, room in zip(newest, ends, strict=False))
    lines = [line((f"{title:<{first}.{first}}{head}", "bold"))]
    for label, cells in labels.items():
        said = "".join(f"{cells[each]:>{column}}" for each in shown)
        found = _newest_cells(scores[versions[-1]].get(label))
        told = zip(newest, ends, strict=False)
        said += "".join(f"{found.get(name, ''):>{room}}" for name, room in told)
        lines.append(line((f"{label:<{first}.{first}}{said}", "")))
    return lines


def _shown_versions(count: int, fitting: int) -> list[int]:
    """Return the places of the versions to show: the first one, and the newest that fit.

    At least one of the newest is shown, if there are two.
    """
    left_out = max(count - max(fitting, 2), 0)
    return [0, *range(1 + left_out, count)]


def _score_cells(scores: Mapping[int, Mapping[str, Score]]) -> dict[str, list[str]]:
    """Return for each label its score at each version, in percent; empty where it has none."""
    by_version = [scores[version] for version in sorted(scores)]
    labels = dict.fromkeys(label for each in by_version for label in each)
    return {label: [_percent(each.get(label)) for each in by_version] for label in labels}


def _percent(score: Score | None) -> str:
    return "" if score is None else f"{100 * score.mean:.1f}"


def _newest_cells(score: Score | None) -> dict[str, str]:
    """Return the cells of `WITH_INTERVAL` by heading; none without a score."""
    if score is None:
        return {}
    cells = (f"{100 * score.std_error:.1f}", score.ends, str(score.tasks))
    return dict(zip(WITH_INTERVAL, cells, strict=True))


def _counts(progress: Progress, prefix: str) -> dict[str, int]:
    counts = progress.evolution.items()
    return {name.removeprefix(prefix): n for name, n in counts if name.startswith(prefix)}
