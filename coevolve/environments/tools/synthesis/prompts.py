"""The prompts of a synthesizer's model.

The stages are CoEvolve's (arXiv 2604.15840): reflect on the flagged task or pattern, explore again
with a goal that depends on the signal, abstract tasks from the calls, judge them; the wording is
our own. Deviations: the tasks of one exploration are abstracted from that exploration only; each
task must work from the initial state; the instructions must contain every value that a call needs.

No prompt contains a reference of a training task or anything of a held-out one: `Brief` has
neither. How foreign texts are marked and cut: `tools.synthesis.prompt_parts`.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from coevolve.environments.tools.synthesis.answers import MAX_TASKS, MAX_TURNS, Move
from coevolve.environments.tools.synthesis.brief import Start
from coevolve.environments.tools.synthesis.prompt_parts import (
    DATA,
    EVIDENCE_CHARS,
    OBSERVATION_CHARS,
    as_chat,
    cut,
    goal_of,
    marked,
    reviewed,
    so_far,
    steps_text,
)
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.toolset import ToolDocument
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.llm.client import PromptMessage
from protocols.evolution import Candidate, Reflection
from protocols.rollouts import Action
from protocols.synthesis import Brief

REBUILD_LOOKS = 4
"""Times that a reader may write the calls of one reconstruction; it sees the answers between."""

EXPLORE = """\
You explore a simulated environment through its tools, so that training tasks can be made of what \
you find. {data}

These tools exist, and no others:
{tools}

In each of your turns look at what is known so far, consider which calls are possible, and make \
the one that serves the goal most. You see its result before your next turn. Explore the area that \
the goal names thoroughly: look before you act, use the names that you have seen, and do not make \
the same call twice where nothing has changed. An error is a finding too, but a task needs calls \
that work.

Answer with one JSON object and nothing else, reason first:
{{"reason": "why this call, in one sentence", "action": "tool_name(argument='value', number=3)"}}
The action is a single Python call: the tool's name, arguments by name, literal values. When there \
is nothing more to find, answer {{"reason": "...", "done": true}}."""

ABSTRACT = f"""\
You make training tasks for an agent that works with tools. You are given the tools and an \
exploration: calls that were carried out one after the other in an environment, with their \
results. {DATA}

Find what the calls accomplish, and state it as tasks that a user could set. Rules:
- Every task starts in the environment's initial state, before the first step of the exploration, \
and not where another task ended. Its calls must work from there: include whatever step they \
build on, such as entering a folder, and leave out every call that contributes nothing.
- Use calls that worked in the exploration, as they stand there. A call that failed is not part of \
a task.
- A task has one to {MAX_TURNS} turns. A turn is what the user says and the calls that carry it \
out, in order. Prefer tasks of several steps that depend on one another; one simple task is welcome.
- The user speaks plainly, of goals, and writes no calls and no names of tools or parameters. \
Every value that a call needs is said in the user's words, with names and texts exactly as in the \
call; or it can be found out, from an earlier result of the same task or by a call that only \
reads. Nothing is said that no call needs.
- A turn may have no calls, if the right thing is to ask: the user leaves out a value that nobody \
can find out, and says it in the next turn, which has the calls. Or a tool is missing: name it in \
"withheld"; the turn that needs it has no calls, and the next turn has an empty instruction, the \
tool in "revealed", and the calls.
- No two tasks are alike. At most {MAX_TASKS} tasks; none where nothing came of the exploration.

Answer with one JSON object and nothing else:
{{"tasks": [{{"description": "what the task is about and when it is completed", "turns": [
  {{"instruction": "what the user says", "calls": ["tool_name(argument='value')"]}}]}}]}}
"withheld" is a list beside "turns", and "revealed" a list in a turn; leave both out where no tool \
is missing."""

JUDGE = f"""\
You judge whether a task for an agent with tools is sound: whether its calls, which were carried \
out in a simulator, do what its instructions ask for. {DATA}

Look at five things in turn:
1. Tools: does each call use a tool that exists and that fits what is asked?
2. Arguments: are all values given, well-formed, and those that the instruction names?
3. Logic: does each call follow from the ones before it?
4. Result: do the results show that everything that was asked for has been reached?
5. Gaps: did any step fail, is one missing, or is one superfluous?

Answer with one JSON object and nothing else, reason first:
{{"reason": "what decided it, in one or two sentences", "success": true or false}}"""


CONTRAST = f"""\
You read what a user asks of an agent with tools, and pick, out of several options, the calls \
that do exactly that: everything that is asked for, nothing that is not, in the order that is \
asked for. More than one option may fit, or none. A turn without calls is right where the user \
leaves out what only a later turn says, or where no tool exists yet. What a call answers is not \
shown; a value that only such an answer can show counts as right. {DATA}

Answer with one JSON object and nothing else, reason first:
{{"reason": "what decided it, in one or two sentences", "picks": [numbers of fitting options]}}"""


REBUILD = f"""\
You read what a user asks of an agent with tools, and write the calls that do exactly that: \
everything that is asked for, nothing that is not, in the order that is asked for. Where it is not \
clear what is meant, or no tool can do it, write no call for that turn. Where a call takes a value \
that only the answer to an earlier call shows, leave out that call and those after it, and say \
that you are not finished: you then see what your calls answer, and write all calls again, at most \
{REBUILD_LOOKS} times. {DATA}

Answer with one JSON object and nothing else, reason first:
{{"reason": "how you read it, in one or two sentences",
 "calls_by_turn": [["tool_name(argument='value')"], []], "finished": true or false}}
There is one list for each turn. A call is a single Python call: the tool's name, arguments by \
name, literal values."""


def explore(
    brief: Brief, reflection: Reflection, start: Start, steps: Sequence[tuple[Move, Action]]
) -> tuple[PromptMessage, ...]:
    """Return the prompt for the next call of an exploration after ``steps``."""
    opening = [f"Goal: {goal_of(brief)}", *reviewed(brief, reflection)]
    opening.append(f"You have {brief.steps} calls. The environment is in its initial state.")
    system = EXPLORE.format(data=DATA, tools=_tools(start.classes))
    return (*as_chat(system, "\n\n".join(opening)), *so_far(brief, steps, "action"))


def abstract(brief: Brief, start: Start, steps: Sequence[Action]) -> tuple[PromptMessage, ...]:
    """Return the prompt for tasks made from one exploration."""
    return as_chat(
        ABSTRACT,
        f"The tools:\n{_tools(start.classes)}\n\n"
        f"The goal of the exploration was: {goal_of(brief)}\n\n"
        f"The exploration, from the initial state on:\n"
        f"{marked(steps_text(steps, OBSERVATION_CHARS))}",
    )


def judge(candidate: Candidate) -> tuple[PromptMessage, ...]:
    """Return the prompt that asks whether a candidate is sound."""
    task = read_body(candidate.body)
    turns = "\n".join(
        f"turn {number}: {turn.instruction}\n{_carried_out(turn)}"
        for number, turn in enumerate(task.turns, 1)
    )
    return as_chat(
        JUDGE,
        f"The tools:\n{_tools(task.classes)}\n\n"
        f"The task, with the result of each call:\n{marked(turns)}",
    )


def contrast(
    task: ToolTask, options: Sequence[Sequence[Sequence[str]]]
) -> tuple[PromptMessage, ...]:
    """Return the prompt that asks which options, each with calls by turn, the task asks for."""
    offered = "\n\n".join(
        f"Option {number}:\n" + "\n".join(f"turn {n}: {'; '.join(calls)}" for n, calls in turns)
        for number, turns in enumerate((enumerate(each, 1) for each in options), 1)
    )
    return as_chat(CONTRAST, f"{_asked(task)}\n\n{marked(offered)}")


def rebuild(task: ToolTask, seen: Sequence[Action] = ()) -> tuple[PromptMessage, ...]:
    """Return the prompt that asks for the calls of each turn, without any option to choose.

    ``seen`` are the calls that the model wrote before, with their answers.
    """
    asked = _asked(task)
    if seen:
        asked += f"\n\nWhat your calls so far answer:\n{marked(steps_text(seen, EVIDENCE_CHARS))}"
    return as_chat(REBUILD, asked)


def _asked(task: ToolTask) -> str:
    """Return the tools, the world and the instructions of a task, without its reference."""
    asked = "\n".join(f"turn {n}: {turn.instruction}" for n, turn in enumerate(task.turns, 1))
    parts = [
        f"The tools:\n{_tools(task.classes)}",
        *([_tools_to_come(task)] if task.withheld else []),
        f"The world at the start:\n{marked(cut(task.world, OBSERVATION_CHARS))}",
        f"The instructions:\n{marked(asked)}",
    ]
    return "\n\n".join(parts)


def _tools_to_come(task: ToolTask) -> str:
    """Return which tools exist only from some turn on."""
    lines = [
        f"from turn {number} on: {', '.join(turn.revealed)}"
        for number, turn in enumerate(task.turns, 1)
        if turn.revealed
    ]
    return "Some of them do not exist at first:\n" + "\n".join(lines)


def _carried_out(turn: ToolTurn) -> str:
    results = turn.results or ("(not known)",) * len(turn.reference)
    return "\n".join(
        json.dumps({"call": call, "result": cut(result, EVIDENCE_CHARS)}, ensure_ascii=False)
        for call, result in zip(turn.reference, results, strict=True)
    )


def _tools(classes: Iterable[str]) -> str:
    return "\n".join(
        _tool(document) for class_name in classes for document in tool_documents(class_name)
    )


def _tool(document: ToolDocument) -> str:
    """Return a tool's documentation on one line, without the sentence that its class shares."""
    own = document.description.rpartition("Tool description: ")[2]
    return json.dumps(
        {
            "name": document.name,
            "description": own,
            "parameters": _schema(document.parameters),
        },
        ensure_ascii=False,
    )


_JSON_TYPES = {"dict": "object", "float": "number"}


def _schema(part: object) -> Any:
    """Return a schema in BFCL's dialect as JSON Schema."""
    if isinstance(part, list):
        return [_schema(entry) for entry in cast(list[object], part)]
    if not isinstance(part, dict):
        return part
    schema = {name: _schema(value) for name, value in cast(dict[str, object], part).items()}
    if isinstance(kind := schema.get("type"), str):
        schema["type"] = _JSON_TYPES.get(kind, kind)
    return schema
