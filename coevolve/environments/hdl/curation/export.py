"""Writes kept steps as rows for supervised fine-tuning, one JSON object a line.

- ``chat``: ``messages`` of role and content, the policy's answer last, and the step's origin;
- ``llamafactory``: ``system``, ``history`` of (user, assistant) pairs, ``instruction`` and
  ``output``, with ``dataset``, ``context_id`` and ``run_type`` as in LLM4Cov's released data. The
  values are those of its later release: ``agentic_xrun`` for a step from a failed simulation,
  ``agentic_coverage`` from any other graded state, ``direct_infer`` from a blank state.

Consecutive messages of one role are joined by an empty line.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from coevolve.environments.hdl.policy.transition import Blank, ChatText, Transition, coverage_of

RowForm = Literal["chat", "llamafactory"]


def run_type(transition: Transition) -> str:
    """Return the step's ``run_type`` in LLM4Cov's data."""
    if isinstance(transition.before, Blank):
        return "direct_infer"
    return "agentic_xrun" if coverage_of(transition.before) is None else "agentic_coverage"


def chat_row(transition: Transition) -> dict[str, object]:
    """Return one conversation whose last message is the training target."""
    messages = [{"role": each.role, "content": each.text} for each in _merge(transition.prompt)]
    messages.append({"role": "assistant", "content": transition.answer})
    return {
        "messages": messages,
        "design_id": transition.design_id,
        "transition_id": transition.transition_id,
        "run_type": run_type(transition),
        "author": f"{transition.author.name}@{transition.author.version}",
        "stage": transition.stage,
    }


def llamafactory_row(transition: Transition, dataset: str) -> dict[str, object]:
    """Return one row of LlamaFactory's alpaca form with history.

    Raises ValueError for an invalid prompt. A valid one has at most one system message, then user
    and assistant messages in turn, with a user message last.
    """
    messages = _merge(transition.prompt)
    system = messages[0].text if messages and messages[0].role == "system" else ""
    turns = messages[1:] if system else messages
    roles = [each.role for each in turns]
    if roles != ["user", "assistant"] * (len(turns) // 2) + ["user"]:
        raise ValueError(
            f"transition {transition.transition_id}: a LlamaFactory row needs a prompt of user and "
            f"assistant in turn, a user last, found {', '.join(roles) or 'no message'}"
        )
    return {
        "system": system,
        "history": [[turns[i].text, turns[i + 1].text] for i in range(0, len(turns) - 1, 2)],
        "instruction": turns[-1].text,
        "output": transition.answer,
        "dataset": dataset,
        "context_id": transition.design_id,
        "run_type": run_type(transition),
    }


def rows(
    transitions: Iterable[Transition], form: RowForm, dataset: str = "coevolve-hdl"
) -> Iterable[Mapping[str, object]]:
    """Return the rows in the order of the steps."""
    match form:
        case "chat":
            return (chat_row(each) for each in transitions)
        case "llamafactory":
            return (llamafactory_row(each, dataset) for each in transitions)


def write(path: Path, lines: Iterable[Mapping[str, object]]) -> int:
    """Write the rows as JSONL and return their number."""
    count = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
            count += 1
    return count


def _merge(prompt: Sequence[ChatText]) -> list[ChatText]:
    merged: list[ChatText] = []
    for each in prompt:
        if merged and merged[-1].role == each.role:
            each = ChatText(role=each.role, text=f"{merged.pop().text}\n\n{each.text}")
        merged.append(each)
    return merged
