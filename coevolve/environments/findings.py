"""What came of checking an environment, in one form for all of them."""

import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from protocols.capabilities import WITHOUT, Capabilities
from protocols.errors import CoevolveError

State = Literal["holds", "fails", "absent"]
"""``absent``: a capability that the environment does not have, and does not claim to have."""

SubjectT = TypeVar("SubjectT")

Checks = Mapping[str, Callable[[SubjectT], Awaitable[tuple[bool, str]]]]
"""Name of a check -> what measures it: whether it holds, and what was found. Where the name is that
of a capability, the environment's claim decides what it means if it does not hold."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one check."""

    check: str
    state: State
    found: str
    """What was measured, or what is wrong and where."""


async def findings(
    checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> tuple[Finding, ...]:
    """Return the findings of every check; ``claimed`` is what the environment declares.

    What it declares, and no check measures, fails.
    """
    made = await measured(checks, subject, claimed)
    return (*made, *(_unmeasured(name, claimed) for name in WITHOUT if name not in checks))


async def measured(
    checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> tuple[Finding, ...]:
    """Return the findings of every check, and no word on what none of them measures."""
    return tuple([await _finding(name, checks, subject, claimed) for name in checks])


def _unmeasured(name: str, claimed: Capabilities) -> Finding:
    if getattr(claimed, name):
        found = "declared, and no check measures it"
        return Finding(check=name, state="fails", found=found)
    return Finding(check=name, state="absent", found=WITHOUT[name])


def _place(error: Exception) -> str:
    """Return where an exception was raised, as ``file.py:12``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


async def _finding(
    name: str, checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> Finding:
    try:
        holds, found = await checks[name](subject)
    except CoevolveError as error:
        holds, found = False, str(error)
    except Exception as error:  # noqa: BLE001 -- the environment's own code
        holds, found = False, f"{type(error).__name__}: {error} ({_place(error)})"
    if name not in WITHOUT:
        return Finding(check=name, state="holds" if holds else "fails", found=found)
    if getattr(claimed, name):
        advice = "" if holds else "; it is declared: mend it, or declare that it is lacking"
        return Finding(check=name, state="holds" if holds else "fails", found=found + advice)
    advice = "; it holds, and could be declared" if holds else f": {WITHOUT[name]}"
    return Finding(check=name, state="absent", found=found + advice)
