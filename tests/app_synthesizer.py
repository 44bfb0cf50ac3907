"""A scripted model that makes, reads and solves tasks in AppWorld's app for notes.

`tests.chat_server.serving` serves it. It looks around once, and then proposes one sound task and
others, each with another fault. As a reader it knows the right code of every instruction that it
writes.
"""

import ast
import hashlib
import json
import re
from collections.abc import Sequence

from tests.chat_server import Messages

LOGIN = """passwords = {a["account_name"]: a["password"]
             for a in apis.supervisor.show_account_passwords()}
profile = apis.supervisor.show_profile()
token = apis.simple_note.login(
    username=profile["email"], password=passwords["simple_note"])["access_token"]"""
COMPLETE = "apis.supervisor.complete_task()"

HOW_MANY = "How many notes do I have in Simple Note? Answer with the number."
COUNT = """count, page = 0, 0
while notes := apis.simple_note.search_notes(page_index=page, access_token=token):
    count, page = count + len(notes), page + 1"""
NOTING = re.compile(r"Write down '(.+)' in Simple Note, with the title '(.+)'\.")

CREATE = "apis.simple_note.create_note(title={title!r}, content={content!r}, access_token=token)"
WITHOUT_USE = "\n".join(f"unused_{number} = 'nothing of use {number}'" for number in range(20))


def noting(content: str, title: str) -> str:
    """Return an instruction that asks for a note."""
    return f"Write down '{content}' in Simple Note, with the title '{title}'."


def solution(instruction: str) -> tuple[str, ...]:
    """Return the code that an instruction of this model asks for; none if it does not know it."""
    if found := NOTING.fullmatch(instruction.strip()):
        return LOGIN, CREATE.format(content=found[1], title=found[2]), COMPLETE
    if instruction.strip() == HOW_MANY:
        return LOGIN, COUNT, "apis.supervisor.complete_task(answer=count)"
    return ()


def faulty(mark: str) -> dict[str, tuple[str, Sequence[str]]]:
    """Return an instruction and code for each gate, which has to refuse them."""
    note = CREATE.format(content=f"Milk {mark}", title=f"Shop {mark}")
    asked = noting(f"Milk {mark}", f"Shop {mark}")
    return {
        "no_effect": ("Leave all my notes as they are.", (LOGIN, COMPLETE)),
        "passes_mutants": (asked, (LOGIN, WITHOUT_USE, note, COMPLETE)),
        "reads_hidden": (
            HOW_MANY,
            (
                "answer = open('/data/ground_truth/answer.json').read()",
                "apis.supervisor.complete_task(answer=answer)",
            ),
        ),
        "answer_given": (HOW_MANY, (LOGIN, "apis.supervisor.complete_task(answer=7)")),
        "means_otherwise": (
            HOW_MANY,
            (LOGIN, COUNT, "apis.supervisor.complete_task(answer=count + 1)"),
        ),
    }


def proposals(mark: str) -> dict[str, tuple[str, Sequence[str]]]:
    """Return a sound task, under the empty name, and those of `faulty`."""
    asked = noting(f"Call {mark}", f"Today {mark}")
    return {"": (asked, solution(asked)), **faulty(mark)}


def app_brain(messages: Messages) -> str:
    """Answer a prompt of `appworld.synthesis.questions`."""
    task, asked = messages[0]["content"], messages[1]["content"]
    if '"failure_cause"' in task:
        return json.dumps(
            {"summary": "It writes no code.", "focus_pattern": ["simple_note.create_note"]}
        )
    if '"tasks"' in task:
        mark = str(int(hashlib.sha256(asked.encode()).hexdigest()[:6], 16))
        tasks = [{"instruction": said, "code": code} for said, code in proposals(mark).values()]
        return f"Here they are:\n{json.dumps({'tasks': tasks})}"
    if '"picks"' in task:
        return _picked(asked)
    if '"finished"' in task:
        return json.dumps({"code": solution(_instruction(asked)), "finished": True})
    if len(messages) > 3:
        return '{"reason": "That is all.", "done": true}'
    code = f"{LOGIN}\nprint(apis.simple_note.search_notes(access_token=token))"
    return json.dumps({"reason": "Look at the notes.", "code": code})


def _picked(asked: str) -> str:
    wanted = "\n".join(ast.unparse(ast.parse(block)) for block in solution(_instruction(asked)))
    offered = re.split(r"^Option \d+:\n", asked, flags=re.MULTILINE)[1:]
    options = [re.sub(r"</data \w+>", "", text).strip() for text in offered]
    picks = [number for number, option in enumerate(options, 1) if option == wanted]
    return json.dumps({"reason": "It does this.", "picks": picks})


def _instruction(asked: str) -> str:
    found = re.search(r"The person says:\n<data (\w+)>\n(.*?)\n</data \1>", asked, re.DOTALL)
    return found[2] if found else ""
