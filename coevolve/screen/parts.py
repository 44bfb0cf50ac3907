"""Lines on what the parts of a run wait for; equal ones of the same kind share a line."""

from collections.abc import Sequence

from rich.text import Text

from coevolve.screen.lines import line
from protocols.control import PartStatus

NAME, SINCE = 17, 7

ORDER = (
    *("learner", "rollout", "simulator", "evaluator", "curriculum"),
    *("synthesizer", "validator", "signals"),
)
"""Kinds of parts in the order of their lines, of which a low terminal cuts the last."""


def part_lines(statuses: Sequence[PartStatus]) -> list[Text]:
    """Return a line for each kind of part and each thing that parts of it wait for."""
    groups: dict[tuple[str, str], list[PartStatus]] = {}
    for each in sorted(statuses, key=_place):
        groups.setdefault((_kind(each.part), _waiting(each)), []).append(each)
    return [_line(kind, waiting, group) for (kind, waiting), group in groups.items()]


def _kind(part: str) -> str:
    """Return ``rollout`` for ``rollout-0``."""
    kind, _, number = part.rpartition("-")
    return kind if number.isdecimal() else part


def _place(status: PartStatus) -> int:
    kind = _kind(status.part)
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def _waiting(status: PartStatus) -> str:
    return status.waits_for if status.pid is None else f"waits for {status.waits_for}"


def _line(kind: str, waiting: str, group: Sequence[PartStatus]) -> Text:
    name = group[0].part if len(group) == 1 else f"{len(group)} x {kind}"
    since_s = max(each.since_s for each in group)
    since = f"{since_s:.0f} s" if since_s >= 1 else ""
    versions = sorted({each.policy_version for each in group if each.policy_version >= 0})
    held = "" if not versions else f"v{versions[-1]}"
    if len(versions) > 1:
        held = f"v{versions[0]}-{versions[-1]}"
    style = "yellow" if group[0].pid is None else ""
    return line(
        (f"{name:<{NAME}.{NAME}} ", ""),
        (f"{since:>{SINCE}}  ", "dim"),
        (waiting, style),
        (f"  {held}" if held else "", "dim"),
    )
