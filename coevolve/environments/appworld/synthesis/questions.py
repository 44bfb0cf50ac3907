"""What a synthesizer's, reader's or judge's model is asked about tasks whose references are code.

The stages and their goals are those of all environments with tools; the wording is our own. A
prompt shows documents of APIs, which come from the folder of data, and outputs of the apps. The
licence of AppWorld covers both, so they go to the endpoint of the run file and nowhere else.
"""

import contextlib
import json
from collections.abc import Iterable, Sequence
from functools import partial

from coevolve.environments.appworld.blocks import apis_in
from coevolve.environments.appworld.documents import ApiDocuments
from coevolve.environments.appworld.prompt import person_and_time
from coevolve.environments.appworld.synthesis.answers import (
    read_code_tasks,
    read_solution,
    read_step,
)
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.synthesis.answers import MAX_TASKS, Move
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
from coevolve.environments.tools.synthesis.prompts import REBUILD_LOOKS
from coevolve.environments.tools.synthesis.questions import Chat, Questions
from coevolve.environments.tools.task import ToolTask, read_body
from protocols.evolution import Candidate, OnPattern, Reflection
from protocols.rollouts import Action
from protocols.synthesis import Brief

_LOGIN = """\
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
profile = apis.supervisor.show_profile()
token = apis.simple_note.login(
    username=profile["email"], password=passwords["simple_note"])["access_token"]
notes, page = [], 0
while found := apis.simple_note.search_notes(page_index=page, access_token=token):
    notes, page = notes + found, page + 1"""

EXAMPLE = {
    "description": "Find the note with the longest title, tag it, and answer its title.",
    "instruction": "Give the note with the longest title that I have in Simple Note the tag "
    "'lengthy', besides those that it has, and tell me its title.",
    "code": [
        _LOGIN,
        'longest = max(notes, key=lambda note: len(note["title"]))\n'
        'tags = longest["tags"] + ["lengthy"]\n'
        'apis.simple_note.update_note(note_id=longest["note_id"], tags=tags, access_token=token)',
        'apis.supervisor.complete_task(answer=longest["title"])',
    ],
}
"""A task in the form that is asked for; its code is sound in a world with notes."""

SHORT = "An answer is as short as possible: a number, a name, a list of them with commas between."

_WORLD = f"""\
The apps are used by Python code: apis.APP.API(name=value) calls an API, variables stay from one \
block to the next, and only what the code prints is shown. \
apis.api_docs.show_api_doc(app_name='...', api_name='...') documents an API. Each app but api_docs \
and supervisor needs a token of its own login, for which the user name is the email, in the app \
phone the phone number. Lists come in pages, and an empty page is the end. For example:

{_LOGIN.replace("{", "{{").replace("}", "}}")}

{{person}}

All APIs, by app; of some apps with their parameters, of which those with a star are optional:
{{outline}}"""

_EXPLORE = f"""\
You explore the apps of a person through code, so that training tasks can be made of what you \
find. {DATA}

{{world}}

In each of your turns write one block of code that serves the goal most; you see its output before \
your next turn. Read the document of an API before you call it for the first time. Look at what is \
there, then try what a person could want to have changed. An error is a finding too, but a task \
needs code that works. Do not complete a task.

Answer with one JSON object and nothing else, reason first:
{{{{"reason": "why this block, in one sentence", "code": "print(apis...)"}}}}
When there is nothing more to find, answer {{{{"reason": "...", "done": true}}}}."""

_ABSTRACT = f"""\
You make training tasks for an agent that writes Python code for the apps of a person. You are \
given an exploration: blocks of code that were carried out one after the other, with their \
outputs. {DATA}

{{world}}

Find what a person could have wanted, and state it as tasks with code that carries them out. Each \
task is executed and checked, and left out if it breaks one of these rules.

The code:
- It starts in the initial state, before the first block of the exploration, and works from there: \
it logs in itself, does not fail, and does the same every time.
- It has at most {{blocks}} blocks. The last one calls apis.supervisor.complete_task(), with \
answer=... if the instruction asks for something and without if it does not. {SHORT}
- It changes something, or finds out an answer, or both, and nothing else. It has no statement \
without which the end would be the same, such as one that only looks around or prints, and none \
whose effect was there before.
- It finds out by itself whatever the apps show: ids, names, counts, the answer. It never has an \
id or an answer that the exploration showed. It goes through all pages of long lists.
- It uses the apps alone, as apis.APP.API(...) with names that are listed above: no files, no \
open, eval, exec, getattr or __import__, no names with two underscores, no chance, and not \
apis.supervisor.show_active_task, which shows another task.

The instruction:
- It is what the person says: plainly, about goals, without code, names of APIs or ids.
- It says every text, number and name that the code has and that the apps or the documents of \
their APIs do not show, exactly as in the code: names of things in single quotes, numbers as \
digits. It has no quotation and no number that the code does not use.
- One reading of it is right, and no other: which app, which of several things, all or only some, \
whether a limit is itself included, and in which form the answer is to be given.
- Whatever it asks for the code does, and whatever the code changes it asks for. It asks for an \
answer in so many words (tell me, how many, which), or for none; it does not say the answer.

Prefer tasks of several steps that depend on one another; one simple task is welcome. No two tasks \
are alike. At most {MAX_TASKS} tasks; none where nothing came of the exploration.

Answer with one JSON object and nothing else. The form, with a task that you must not repeat:
{{example}}"""

_JUDGE = f"""\
You judge whether a task for an agent with apps is sound: whether its code, which was carried out, \
does what its instruction asks for. {DATA}

Look at five things in turn: does each call use an API that fits; are all values those that the \
instruction names; does each step follow from the ones before it; has everything been reached that \
was asked for; is any step missing or superfluous?

Answer with one JSON object and nothing else, reason first:
{{"reason": "what decided it, in one or two sentences", "success": true or false}}"""

_CONTRAST = f"""\
You read what a person asks of an agent that writes code for apps, and pick, out of several \
options, the code that does exactly that: everything that is asked for, nothing that is not. More \
than one option may fit, or none. {DATA}

Answer with one JSON object and nothing else, reason first:
{{"reason": "what decided it, in one or two sentences", "picks": [numbers of fitting options]}}"""

_REBUILD = f"""\
You are asked for something by a person, and carry it out by code for their apps: everything that \
is asked for, nothing that is not. {DATA}

{{world}}

You may look first: write blocks that print, and say that you are not finished. You then see what \
they print, and write all blocks again from the start, at most {REBUILD_LOOKS} times. Finished \
code ends with apis.supervisor.complete_task(), with answer=... if something is asked for. {SHORT}

Answer with one JSON object and nothing else, reason first:
{{{{"reason": "how you read it, in one or two sentences", "code": ["first block", "second block"],
 "finished": true or false}}}}"""


def code_questions(documents: ApiDocuments, blocks: int) -> Questions:
    """Return the questions, which show ``documents`` of APIs.

    The code of a task has at most ``blocks`` blocks.
    """
    return Questions(
        explore=partial(_explore, documents),
        read_move=read_step,
        abstract=partial(_abstract, documents, blocks),
        read_tasks=read_code_tasks,
        judge=partial(_judge, documents),
        contrast=partial(_contrast, documents),
        rebuild=partial(_rebuild, documents),
        read_rebuilt=read_solution,
    )


def _explore(
    documents: ApiDocuments,
    brief: Brief,
    reflection: Reflection,
    start: Start,
    taken: Sequence[tuple[Move, Action]],
) -> Chat:
    opening = [f"Goal: {goal_of(brief)}", *reviewed(brief, reflection)]
    flagged = tuple(brief.about.pattern.split(" > ")) if isinstance(brief.about, OnPattern) else ()
    if known := documents.brief(flagged):
        opening.append(f"The APIs of what was flagged:\n{marked(known)}")
    opening.append(f"You have {brief.steps} blocks. The apps are in their initial state.")
    system = _EXPLORE.format(world=_world(documents, start.extra, flagged))
    return (*as_chat(system, "\n\n".join(opening)), *so_far(brief, taken, "code"))


def _abstract(
    documents: ApiDocuments, blocks: int, brief: Brief, start: Start, steps: Sequence[Action]
) -> Chat:
    named = _named(step.text for step in steps if not step.failed)
    example = json.dumps({"tasks": [EXAMPLE]}, indent=1)
    world = _world(documents, start.extra, named)
    return as_chat(
        _ABSTRACT.format(world=world, blocks=blocks, example=example),
        f"The goal of the exploration was: {goal_of(brief)}\n\n"
        f"The APIs that it used:\n{marked(documents.brief(named))}\n\n"
        f"The exploration, from the initial state on:\n"
        f"{marked(steps_text(steps, OBSERVATION_CHARS))}",
    )


def _judge(documents: ApiDocuments, candidate: Candidate) -> Chat:
    body = read_body(candidate.body)
    (turn,) = body.turns
    results = turn.results or ("(not known)",) * len(turn.reference)
    done = "\n".join(
        json.dumps({"code": code, "output": cut(result, EVIDENCE_CHARS)}, ensure_ascii=False)
        for code, result in zip(turn.reference, results, strict=True)
    )
    return as_chat(_JUDGE, f"{_asked(documents, body)}\n\nThe code, carried out:\n{marked(done)}")


def _contrast(documents: ApiDocuments, body: ToolTask, options: Sequence[Turns]) -> Chat:
    offered = "\n\n".join(
        f"Option {number}:\n" + "\n".join(block for blocks in turns for block in blocks)
        for number, turns in enumerate(options, 1)
    )
    return as_chat(_CONTRAST, f"{_asked(documents, body)}\n\n{marked(offered)}")


def _rebuild(documents: ApiDocuments, body: ToolTask, seen: Sequence[Action]) -> Chat:
    asked = f"The person says:\n{marked(body.turns[0].instruction)}"
    if seen:
        shown = steps_text(seen, OBSERVATION_CHARS)
        asked += f"\n\nYour blocks so far, with what they print:\n{marked(shown)}"
    world = _world(documents, body.extra, _named(body.turns[0].reference))
    return as_chat(_REBUILD.format(world=world), asked)


def _asked(documents: ApiDocuments, body: ToolTask) -> str:
    """Return the instruction of a task, and the APIs of its code."""
    (turn,) = body.turns
    return (
        f"The APIs:\n{marked(documents.brief(_named(turn.reference)))}\n\n"
        f"{person_and_time(body.extra)}\n\nThe person says:\n{marked(turn.instruction)}"
    )


def _world(documents: ApiDocuments, extra: str, named: Iterable[str]) -> str:
    """Return what all questions say of the apps: of those of ``named`` APIs also parameters."""
    apps = {name.partition(".")[0] for name in named}
    return _WORLD.format(person=person_and_time(extra), outline=documents.outline(apps))


def _named(blocks: Iterable[str]) -> tuple[str, ...]:
    """Return the APIs that blocks name, each once."""
    found: dict[str, None] = {}
    for block in blocks:
        with contextlib.suppress(ValueError):
            found |= dict.fromkeys(apis_in(block))
    return tuple(found)
