"""Reads a request: which tools a walk should try, and what the evidence shows by simple rules.

A signal about a pattern points to the tools of the pattern. A signal about a task points to the
tools of the turn in which its attempts failed, above all to those used by attempts that passed the
turn. Without a signal, all tools are equal.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from coevolve.environments.tools.filesystem.walk import TOOLS, Chain
from protocols.evolution import SKILL, OnPattern, OnTask, Reflection
from protocols.synthesis import Anything, Attempt, Brief

MAX_CALLS = 3
"""Maximum number of calls in one errand."""

_MISTAKES = 3
"""Maximum number of mistakes that a reflection names."""


def focus_of(brief: Brief) -> tuple[Chain, ...]:
    """Return the errands, or parts of errands, that the request points to; empty for any tool."""
    match brief.about:
        case OnPattern(kind=kind, pattern=pattern):
            named = [word for word in re.findall(r"[A-Za-z_]+", pattern) if word in TOOLS]
            most = {"tool_bigram": 2, SKILL: MAX_CALLS}.get(kind, 1)
            return (tuple(named[:most]),) if named else ()
        case OnTask():
            return _missed(brief.attempts)
        case Anything():
            return ()


def reflect(brief: Brief, focus: Sequence[Chain]) -> Reflection:
    """Return a reflection with counts of the attempts' failures and the tools to explore."""
    failed = [attempt for attempt in brief.attempts if not attempt.succeeded]
    ended = Counter(f"{each.ended} in turn {each.turns_passed + 1}" for each in failed)
    mistakes = Counter(
        f"{action.text} -> {action.result}"
        for attempt in failed
        for action in attempt.actions
        if action.failed
    )
    counted = f"{len(failed)} of {len(brief.attempts)} attempts failed"
    if brief.kind == "rare":
        counted = f"{len(brief.attempts)} attempts used it, {len(failed)} of them failed"
    return Reflection(
        summary=f"{brief.kind} signal: {counted if brief.attempts else 'no attempt used it'}.",
        failure_cause=", ".join(f"{end} ({count})" for end, count in ended.most_common()),
        instability_pattern="" if len(failed) in (0, len(brief.attempts)) else "Attempts differ.",
        focus_pattern=tuple(" > ".join(chain) for chain in focus) or ("any tool",),
        avoid_pattern=tuple(text for text, _ in mistakes.most_common(_MISTAKES)),
    )


def _missed(attempts: Sequence[Attempt]) -> tuple[Chain, ...]:
    """Return the calls of attempts that passed the turn in which others failed."""
    failed = [attempt for attempt in attempts if not attempt.succeeded]
    if not failed:
        return _each_tool(tool for attempt in attempts for tool in _called(attempt))
    turn = Counter(attempt.turns_passed for attempt in failed).most_common(1)[0][0]
    stuck = [attempt for attempt in failed if attempt.turns_passed == turn]
    tried = {tool for attempt in stuck for tool in _called(attempt, turn)}
    through = [attempt for attempt in attempts if attempt.turns_passed > turn]
    ways = Counter(_called(each, turn, failing=False)[:MAX_CALLS] for each in through)
    ways.pop((), None)
    missed = [chain for chain, _ in ways.most_common() if set(chain) - tried]
    return tuple(missed or ways) or _each_tool(tried)


def _each_tool(tools: Iterable[str]) -> tuple[Chain, ...]:
    return tuple((tool,) for tool in sorted(set(tools)))


def _called(attempt: Attempt, turn: int | None = None, *, failing: bool = True) -> Chain:
    """Return the tools that an attempt called in one turn or all, with or without failures."""
    called = (
        action.text.partition("(")[0].strip()
        for action in attempt.actions
        if turn in (None, action.turn) and (failing or not action.failed)
    )
    return tuple(tool for tool in called if tool in TOOLS)
