"""The section on rollouts: those of some groups, side by side."""

from collections.abc import Container
from typing import Any

import msgspec

from coevolve.history.differences import difference
from coevolve.history.rollouts import Group, Pieces, Sample
from coevolve.history.run_history import RunHistory, skills_of
from coevolve.history.traffic import traffic_of
from coevolve.report.figure import folded
from coevolve.report.links import task_anchor
from coevolve.report.markup import Markup, tag
from coevolve.report.sections.lives import verdict_told
from protocols.evolution import GroupSummary
from protocols.rollouts import Ending, FailedRollout, Rollout
from protocols.tasks import Task

TITLE = "Rollouts side by side"
ENDINGS: dict[Ending, str] = {
    "finished": "the conversation finished",
    "wrong": "a turn ended in a wrong state or with a wrong answer",
    "malformed": "a message was neither a call nor the end of a turn",
    "too_long": "the conversation reached its maximum of tokens",
    "too_many_calls": "a turn reached its maximum of calls",
    "too_many_conversations": "the attempt reached its maximum of conversations",
    "program_stopped": "the program could not go on with what the policy wrote",
}
"""How a rollout ended -> the reason in words."""

OUTCOME = 2000
"""Maximum characters of an outcome."""

FILTERS = ("task", "skill", "version", "outcome")


def rollouts_section(data: RunHistory) -> Markup:
    """Return the choice of groups; the page's script shows the rollouts of those chosen."""
    sample = data.sample
    if data.withheld and not sample.on_demand:
        left_out = f"A file does not hold them. {data.withheld}. `coevolve board` shows them."
        return folded("rollouts", TITLE, left_out)
    if not sample.groups:
        return folded("rollouts", TITLE, "The journal holds no rollout of a group.")
    note = _note(sample)
    choices = [tag("label", f"{name.capitalize()} ", tag("select", name=name)) for name in FILTERS]
    groups = tag("select", name="groups", multiple="", size=8)
    return folded(
        "rollouts",
        TITLE,
        f"{len(sample.groups)} groups: calls, answers and tokens.",
        tag("p", note),
        *(tag("p", line) for line in _traffic(data)),
        tag(
            "p",
            "Choose several groups, for example of one task and two versions, to compare them. A "
            "sampled token has the more colour the less probable it was. “Differs” marks the first "
            "call and the first token that are not those of the first rollout shown. Rollouts of a "
            "group that are the same token by token stand together, with the probabilities of the "
            "first.",
        ),
        tag(
            "form",
            *choices,
            tag("label", "Groups ", groups, class_="wide"),
            class_="filters",
            id="filters",
            aria_label="Choice of rollouts",
        ),
        tag("div", id="side-by-side", aria_live="polite"),
        tag(
            "noscript", tag("p", "Rollouts are shown by a script, which this browser does not run.")
        ),
    )


def _traffic(data: RunHistory) -> list[str]:
    """Return what programs did at the policy's endpoint."""
    groups = [group for each in data.evolution.visits.values() for group in each]
    return traffic_of(sorted(groups, key=lambda group: group.group)).lines()


def _note(sample: Sample) -> str:
    """Return what of the run is shown, and what is left out."""
    shown, finished = len(sample.groups), sample.finished
    if sample.on_demand:
        return (
            f"The newest {shown} of {finished} finished groups. Each is read from the journal when "
            "it is chosen; of older ones the journal may have dropped the rollouts."
        )
    left = f" {finished - shown} are left out; `coevolve board` shows each."
    return (
        f"{shown} of {finished} finished groups are in this page: of the tasks with most groups "
        "the first, a middle and the newest one, and the newest of all."
        + (left if shown < finished else "")
    )


def rollouts_data(data: RunHistory, lives: Container[str] | None = None) -> dict[str, Any]:
    """Return the groups for the page's script; a token is the number of its text in ``pieces``.

    ``lives`` are the anchors of the lives that the page can show; None for all.
    """
    numbers: dict[str, int] = {}
    groups = [_group(data, group, numbers) for group in data.sample.groups]
    for each in groups:
        anchor = task_anchor(each["task"])
        if each["headline"] and (lives is None or anchor in lives):
            each["life"] = f"#{anchor}"
    return {"groups": groups, "pieces": list(numbers)}


def group_data(data: RunHistory, group: Group) -> dict[str, Any]:
    """Return the rollouts of one group, likewise."""
    numbers: dict[str, int] = {}
    rollouts = _rollouts(data, group, _task_of(data, group.summary), numbers)
    return {"rollouts": rollouts, "pieces": list(numbers)}


def _task_of(data: RunHistory, summary: GroupSummary) -> Task | None:
    return data.evolution.tasks.get(summary.root)


def _group(data: RunHistory, group: Group, numbers: dict[str, int]) -> dict[str, Any]:
    summary = group.summary
    task = _task_of(data, summary)
    return {
        "id": summary.group_id,
        "task": summary.root,
        "version": summary.version_max,
        "passed": summary.successes,
        "of": summary.rollouts,
        **_task(data, task),
        "rollouts": None if data.sample.on_demand else _rollouts(data, group, task, numbers),
    }


def _task(data: RunHistory, task: Task | None) -> dict[str, Any]:
    if task is None:
        return {"headline": "", "skills": [], "turns": [], "verdict": ""}
    text = data.describe(task)
    verdict = data.evolution.history(task.root).verdict
    return {
        "headline": text.headline,
        "skills": list(skills_of(data, task)),
        "turns": [[turn.instruction, list(turn.calls)] for turn in text.turns],
        "verdict": verdict_told(verdict) if verdict else "",
    }


def _rollouts(
    data: RunHistory, group: Group, task: Task | None, numbers: dict[str, int]
) -> list[dict[str, Any]]:
    text = data.describe(task) if task else None
    found: list[dict[str, Any]] = []
    for each in group.rollouts:
        shown = _rollout(each, data.sample.pieces, numbers)
        if text and isinstance(each, Rollout) and (left := difference(text, each)):
            shown["why"] = left.sentence
        found.append(shown)
    return found


def _rollout(
    rollout: Rollout | FailedRollout, pieces: Pieces, numbers: dict[str, int]
) -> dict[str, Any]:
    if isinstance(rollout, FailedRollout):
        return {"index": rollout.index, "failed": rollout.reason}
    texts, found = pieces.of_all(rollout)
    return {
        "index": rollout.index,
        "reward": rollout.reward,
        "passed": rollout.turns_passed,
        "of": rollout.turns_total,
        "ended": ENDINGS[rollout.ended],
        "author": rollout.author,
        "versions": [rollout.version_min, rollout.version_max],
        "outcome": _outcome(rollout.outcome),
        "actions": [[each.text, each.result, each.failed] for each in rollout.actions],
        "tokens": [numbers.setdefault(text, len(numbers)) for text in texts],
        "shares": found,
    }


def _outcome(outcome: msgspec.Raw) -> str:
    """Return the environment's result as JSON; empty without one."""
    value = msgspec.msgpack.decode(outcome)
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()[:OUTCOME]
