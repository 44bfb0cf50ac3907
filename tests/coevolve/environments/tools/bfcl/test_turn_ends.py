"""Compares what chat models write in the form `prompt` with BFCL's own decoder and verdicts."""

import ast
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.bfcl.stock import package_folder
from coevolve.environments.tools.chat.calls import read_calls
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.environments.tools.task import read_body
from coevolve.models.chat_template import ChatTemplate
from protocols.config import ChatConfig, RolloutConfig, RunConfig
from protocols.generation import Generation, GenerationRequest
from protocols.tasks import Task
from tests.coevolve.environments.tools.chat import models
from tests.fakes import ScriptGenerator
from tests.simulated import InProcessSimulator

DECODER = (
    *("default_decode_execute_prompting", "ast_parse", "resolve_ast_call", "resolve_ast_by_type"),
    *("decoded_output_to_execution_list", "parse_nested_value"),
)


@cache
def decoder() -> Callable[[str], list[str]]:
    """Return BFCL's decoder; the rest of its file needs packages that coevolve does without."""
    tree = ast.parse((package_folder() / "model_handler" / "utils.py").read_text())
    functions: list[ast.stmt] = [
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name in DECODER
    ]
    assert len(functions) == len(DECODER)

    class ReturnFormat:
        """Stands for the enum, of which only one member is used."""

        PYTHON = "python"

        def __getattr__(self, name: str) -> str:
            return name

    names: dict[str, Any] = {"ast": ast, "re": re, "ReturnFormat": ReturnFormat}
    exec(compile(ast.Module(functions, []), "bfcl", "exec"), names)
    return names["default_decode_execute_prompting"]


def decoded(message: str) -> tuple[str, ...]:
    """Return the calls that BFCL executes; none where it goes on to the next turn."""
    try:
        found = decoder()(message)
    except Exception:  # noqa: BLE001 -- as BFCL's loop does
        return ()
    return tuple(found) if any(found) else ()


MESSAGES = (
    *("[ls()]", "ls()", "[ls(a=True)]", "[ls(), pwd()]", "ls(), pwd()", "[]", "", "Done."),
    *("[Note] The value is set.", "[a](#a) is set.", '{"status": "done"}', "All done (really)."),
    *("cd(folder='a') was called.", "[ls()] shows it.", "First [ls()]", "[ls()", "ls()]", "[ls(]"),
    *("```\n[ls()]\n```", "```python\n[ls()]\n```", "`ls()`", "'ls()'", "[ls()];", "ls(); pwd()"),
    *("[cd('x')]", "[cd(folder=x)]", "[cd(folder='it\\'s')]", "[cd(folder='it's')]", "[ls]"),
    *("[mv(source='a', destination='b'), ls()]", "[f(a=[1, 'x', None])]", "[f(a={'k': 1})]"),
    *("[f(a={})]", "[f(a={'k': {'l': 1}})]", "[f(a=-1, b=+1, c=~1)]", "[f(a=(1, 2))]"),
    *("[f(a=(1,))]", "[f(a=())]", "[f(a=g(b=1))]", "[f(a=g())]", "[f(a=b[0])]", "[f(a=...)]"),
    *("[f(a={1, 2})]", "[f(a=f'x')]", "[a.b.c(x=1)]", "[f(**{'a': 1})]", "[f(*x)]", "[f(a=x+1)]"),
    *("[f(a=lambda: 1)]", "[f(a='</think>')]", "[f(a='```')]", "[f(a=b'x')]", "[f(a=1, a=2)]"),
    *(
        "[x for x in y()]",
        "[f()][0]",
        "[f()], [g()]",
        "[\0]",
        "[f(a='\n')]",
        "[" * 500,
        "[f(a=not 1)]",
    ),
)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_as_bfcl_decodes_it(message: str) -> None:
    assert read_calls("bfcl", message) == decoded(message)


TURNS = (
    "{calls}",
    "I will do it now.",
    "```\n{calls}\n```",
    "```python\n{calls}\n```",
    "{calls} is what I would do.",
    "[Note] Everything is in place.",
    "[done](#done) is set.",
    '{{"status": "done"}}',
    "cd(folder='document') was called, so it is set.",
    "[cd(folder='document'",
    "[cd('document')]",
    "[cd(folder=document)]",
    "{calls}]",
    "[nothing(a=1)]",
    "[ls(]",
    "Here it is: {calls}",
    "[f(a={{}})]",
    "[]",
)


class Speaker(ScriptGenerator):
    """A chat model that says given texts, then only `Done.`."""

    def __init__(self, texts: Sequence[str], renderer: ChatRenderer) -> None:
        super().__init__([])
        self._texts = list(texts)
        self.stop_ids = renderer.stop_ids

    async def generate(self, request: GenerationRequest) -> Generation:
        text = self._texts.pop(0) if self._texts else "Done."
        ids = (*models.tokenizer_with(models.PLAIN).encode(text), self.stop_ids[0])
        return Generation(
            token_ids=ids, logprobs=(-0.5,) * len(ids), versions=(0,) * len(ids), stopped=True
        )


async def verdicts(task: Task, said: Sequence[str], stock: Any) -> tuple[bool, bool]:
    """Return whether the attempt passes here, and in BFCL's own loop with its checker."""
    chat = ChatConfig(tools="prompt")
    template = ChatTemplate(models.tokenizer_with(models.PLAIN), variables={})
    renderer = ChatRenderer(template, chat, ends_turn=Bfcl.ends_turns)
    agent = ToolAgent(
        generator=Speaker(said, renderer),
        simulator=InProcessSimulator(),
        renderer=renderer,
        limits=RolloutConfig(max_tokens=100_000, max_call_tokens=2000, max_calls_per_turn=50),
        temperature=1.0,
    )
    played = await agent.attempt(task, "session", seed=0)
    left, turns = list(said), []
    for _ in read_body(task.body).turns:
        turns.append([])
        while calls := decoded(left.pop(0) if left else "Done."):
            turns[-1] += calls
    return played.succeeded, not stock.verdict(task, turns)


ENDS = ("Done.", *TURNS[1:2], *TURNS[4:10], TURNS[14], TURNS[16], "[]")
"""Words that end a turn in which the right calls were made."""


def named_tasks() -> list[Task]:
    """Return some tasks whose references name all arguments, which BFCL's decoder needs."""
    return [
        task
        for task in load_tasks(["base"])[:40]
        if all(
            "=" in call or call.endswith("()")
            for turn in read_body(task.body).turns
            for call in turn.reference
        )
    ][:3]


@pytest.mark.parametrize("words", TURNS)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
async def test_a_scripted_model_gets_the_verdict_of_bfcls_own_loop(
    words: str, first: bool, stock: Any
) -> None:
    for task in named_tasks():
        said: list[str] = []
        for turn in read_body(task.body).turns:
            calls = f"[{', '.join(turn.reference)}]"
            message = words.format(calls=calls)
            said += [message, calls, "Done."] if first else [calls, message]
        here, there = await verdicts(task, said, stock)
        assert here == there, (task.task_id, said)
        assert first or here or words not in ENDS


def test_the_environment_ends_turns_unless_its_run_file_asks_for_answers() -> None:
    assert Bfcl.ends_turns
    config = RunConfig(name="test", environment={"use": "bfcl"})
    assert config.policy.chat.answered_errors == -1
