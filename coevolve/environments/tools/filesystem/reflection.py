"""What the tiny policy's synthesizer has to say of a signal: rules, not a model.

The tiny model writes instructions and nothing else, so what a large model would write in prose is
counted here from the attempts themselves.
"""

from collections import Counter
from collections.abc import Sequence

from coevolve.environments.tools.filesystem.explorer import Chain
from protocols.evolution import OnPattern, OnTask, Reflection
from protocols.synthesis import Anything, Attempt, Brief

_MOST = 3
"""Mistakes that are named."""


def reflect(brief: Brief, focus: Sequence[Chain]) -> Reflection:
    """Return what the evidence shows, and what to explore because of it."""
    failed = [attempt for attempt in brief.attempts if not attempt.succeeded]
    return Reflection(
        summary=_summary(brief, len(failed)),
        failure_cause=_cause(failed),
        instability_pattern=_instability(brief.attempts, failed),
        focus_pattern=tuple(" > ".join(chain) for chain in focus) or ("any tool",),
        avoid_pattern=_mistakes(failed),
    )


def _summary(brief: Brief, failed: int) -> str:
    match brief.about:
        case OnPattern(kind=kind, pattern=pattern):
            about = f"{kind.replace('_', ' ')} {pattern!r}"
        case OnTask(task_id=task_id):
            about = f"task {task_id}"
        case Anything():
            return "No weakness is named; any tool is explored."
    return f"{brief.kind} signal on {about}: {failed} of {len(brief.attempts)} attempts failed."


def _cause(failed: Sequence[Attempt]) -> str:
    if not failed:
        return "No attempt failed."
    (ended, count), *_ = Counter(attempt.ended for attempt in failed).most_common(1)
    return f"{count} of {len(failed)} failed attempts ended as {ended!r}."


def _instability(attempts: Sequence[Attempt], failed: Sequence[Attempt]) -> str:
    if not failed or len(failed) == len(attempts):
        return "The attempts agree."
    stuck = Counter(attempt.turns_passed + 1 for attempt in failed)
    where = ", ".join(f"turn {turn} ({count})" for turn, count in sorted(stuck.items()))
    return f"Some attempts succeeded while others failed at {where}."


def _mistakes(failed: Sequence[Attempt]) -> tuple[str, ...]:
    """Return the calls that failed most often, with the simulator's words."""
    said = Counter(
        f"{action.text} -> {action.result}"
        for attempt in failed
        for action in attempt.actions
        if action.failed
    )
    return tuple(text for text, _ in said.most_common(_MOST))
