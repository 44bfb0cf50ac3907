"""A scripted model that synthesizes tasks for the key-value store."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chat_server import picked, rebuilt

Messages = Sequence[Mapping[str, str]]

REFLECTION = {
    "summary": "The agent was asked to change a store and did not.",
    "failure_cause": "It calls the wrong tool.",
    "instability_pattern": "Only some kinds of requests succeed.",
    "focus_pattern": ["setting keys", "removing keys"],
    "avoid_pattern": ["keys that are not there"],
}


def key_value_brain(messages: Messages) -> str:
    """Answer a prompt of the synthesizer, as far as the store is concerned."""
    task = messages[0]["content"]
    if '"failure_cause"' in task:
        return json.dumps(REFLECTION)
    if '"action"' in task:
        return _next_step(messages)
    if '"tasks"' in task:
        return _tasks(messages[1]["content"])
    if '"picks"' in task:
        return picked(messages[1]["content"], _wanted)
    if '"calls_by_turn"' in task:
        return rebuilt(messages[1]["content"], _wanted)
    return '{"ok": true}'


def _next_step(messages: Messages) -> str:
    """List the keys, set one for each that there is, remove one, and be done."""
    made = sum(message["role"] == "assistant" for message in messages)
    keys = re.findall(
        r"\[\"(\w+)\", ?\"(\w+)\"\]",
        json.dumps([dict(each) for each in messages]).replace('\\"', '"'),
    )
    if not made or not keys:
        return _move("keys()") if not made else '{"reason": "Nothing is there.", "done": true}'
    first, second = keys[-1]
    steps = [
        f"put(key='{first}copy', value='{len(first)}')",
        f"delete(key='{second}')",
        f"put(key='{second}copy', value='{len(second)}')",
    ]
    return _move(steps[made - 1]) if made <= len(steps) else '{"reason": "Done.", "done": true}'


def _move(call: str) -> str:
    return json.dumps({"reason": "So it goes on.", "action": call})


def _tasks(prompt: str) -> str:
    """Make a task of each change that worked."""
    turns: list[dict[str, Any]] = []
    for line in re.findall(r'^\{"step".*\}$', prompt, flags=re.MULTILINE):
        step = json.loads(line)
        if not step["failed"] and (said := _saying(step["call"])):
            turns.append({"instruction": said, "calls": [step["call"]]})
    tasks = [{"description": "One change.", "turns": [turn]} for turn in turns]
    return json.dumps({"tasks": tasks})


def _saying(call: str) -> str:
    if put := re.fullmatch(r"put\(key='(.+)', value='(.+)'\)", call):
        return f"Set '{put[1]}' to '{put[2]}'."
    if delete := re.fullmatch(r"delete\(key='(.+)'\)", call):
        return f"Remove '{delete[1]}'."
    return ""


def _wanted(instruction: str) -> str:
    """Return the call for an instruction that `_saying` has; empty for others."""
    if put := re.fullmatch(r"Set '(.+)' to '(.+)'\.", instruction):
        return f"put(key='{put[1]}', value='{put[2]}')"
    if delete := re.fullmatch(r"Remove '(.+)'\.", instruction):
        return f"delete(key='{delete[1]}')"
    return ""
