"""Findings of the checks of an environment."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from coevolve.base.foreign import described
from coevolve.base.waiting import doing
from protocols.capabilities import WITHOUT, Capabilities
from protocols.errors import CoevolveError, SimulatorError

EARNED = "rewards are earned"
"""The check that no task is solved by an attempt that does not do what the task asks."""

State = Literal["holds", "fails", "absent", "warns"]
"""``absent``: a capability that the environment does not have, or that no task needs; ``warns``:
what may be right or wrong, as only the author of the tasks can tell."""

SubjectT = TypeVar("SubjectT")

Check = Callable[[SubjectT], Awaitable[tuple[bool, str]]]
"""Returns whether the check holds, and what it found."""

Checks = Mapping[str, Check[SubjectT]]
"""Name of a check -> its function. If the name is that of a capability, a check that does not hold
fails only if the capability is declared."""


class UnfitError(CoevolveError):
    """A task or a tool is wrong, whatever the environment declares; the message has the remedy."""


class UnmeasuredError(CoevolveError):
    """Nothing that a capability is measured on occurs in the tasks; the message says what."""


class DoubtError(CoevolveError):
    """Something may be wrong; the message says what, where, and the remedy."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: str
    state: State
    found: str
    """What was measured, or what is wrong and where."""


def counted(count: int, noun: str) -> str:
    """Return ``1 task`` or ``3 tasks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


async def findings(
    checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> tuple[Finding, ...]:
    """Return the findings of every check; ``claimed`` is what the environment declares.

    A declared capability that no check measures fails.
    """
    made = await measured(checks, subject, claimed)
    return (*made, *(_unmeasured(name, claimed) for name in WITHOUT if name not in checks))


async def measured(
    checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> tuple[Finding, ...]:
    """Return the findings of every check; capabilities without a check are left out."""
    return tuple([await _finding(name, checks, subject, claimed) for name in checks])


def _unmeasured(name: str, claimed: Capabilities) -> Finding:
    if getattr(claimed, name):
        found = "declared, but no check measures it"
        return Finding(check=name, state="fails", found=found)
    return Finding(check=name, state="absent", found=WITHOUT[name])


def _place(error: BaseException) -> str:
    """Return the place where an exception was raised, as ``file.py:12``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


async def _finding(
    name: str, checks: Checks[SubjectT], subject: SubjectT, claimed: Capabilities
) -> Finding:
    try:
        with doing(lambda: f"it checks {name!r}"):
            holds, found = await checks[name](subject)
    except (UnfitError, SimulatorError) as error:
        return Finding(check=name, state="fails", found=str(error))
    except UnmeasuredError as error:
        return Finding(check=name, state="absent", found=f"{error}: nothing to measure")
    except DoubtError as error:
        return Finding(check=name, state="warns", found=str(error))
    except CoevolveError as error:
        holds, found = False, str(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 -- the environment's own code
        holds, found = False, f"{described(error)} ({_place(error)})"
    if name not in WITHOUT:
        return Finding(check=name, state="holds" if holds else "fails", found=found)
    if getattr(claimed, name):
        advice = "" if holds else "; fix it, or declare it as absent (`lacks`, or `capabilities`)"
        return Finding(check=name, state="holds" if holds else "fails", found=found + advice)
    advice = "; it holds and could be declared" if holds else f": {WITHOUT[name]}"
    return Finding(check=name, state="absent", found=found + advice)
