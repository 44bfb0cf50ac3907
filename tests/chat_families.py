"""Real chat templates of model families, and the conversation that each of them has to carry.

The templates are those that TRL ships, and any others that are given. Each gets a small tokenizer
that knows its special tokens. The conversation has three turns with calls, their answers and
closing words. A policy that says what the template writes has to be read as making these calls,
from tokens that are sampled once.

usage: python -m tests.chat_families [FOLDER]...      (prints the table of coevolve/docs/models.md;
                                                       a FOLDER holds further templates, *.jinja)
"""

import asyncio
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import trl
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.environments.tools.conversations import check_conversations
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.models.chat_template import ChatTemplate
from protocols import columns
from protocols.config import ChatConfig, RolloutConfig, RunConfig
from protocols.errors import ConfigError
from protocols.tasks import Task, body_of
from tests.coevolve.environments.tools.chat import models
from tests.reciting import RecitingGenerator
from tests.simulated import InProcessSimulator

TASK = "multi_turn_base_29"
"""A task of BFCL on files; one of its calls has a text with quotes."""

TRL = Path(trl.__file__).parent / "chat_templates"

NAMES: Mapping[str, str] = {
    "cohere": "Cohere Aya Expanse",
    "cohere2": "Cohere Tiny Aya",
    "deepseek_r1_distill": "DeepSeek R1 distilled",
    "deepseekv3": "DeepSeek V3",
    "gemma": "Gemma 1, 2",
    "gemma3": "Gemma 3",
    "gemma4_v5": "Gemma 4",
    "glm4moe": "GLM 4.5",
    "gptoss": "gpt-oss",
    "idefics3": "Idefics 3",
    "lfm2": "LFM2, first",
    "lfm2_v2": "LFM2",
    "lfm2_2_5_v2": "LFM2.5",
    "llama3": "Llama 3",
    "llama3_1": "Llama 3.1, 3.3",
    "llama3_2": "Llama 3.2",
    "llava_next": "LLaVA NeXT",
    "muse_glimmer": "Muse Glimmer",
    "nemotron_3_5_lightning": "Nemotron 3.5 Lightning",
    "nemotron_3_nano": "Nemotron 3 Nano",
    "nemotron_3_super": "Nemotron 3 Super",
    "nemotron_3_ultra": "Nemotron 3 Ultra",
    "phi3": "Phi 3",
    "phi3_5": "Phi 3.5",
    "qwen2_5": "Qwen 2.5",
    "qwen2_5_vl": "Qwen 2.5 VL",
    "qwen3": "Qwen 3",
    "qwen3_5_nothink": "Qwen 3.5, not thinking",
    "qwen3_5_think": "Qwen 3.5, thinking",
    "qwen3_6": "Qwen 3.6",
    "qwen3_8": "Qwen 3.8",
    "qwen3_instruct_2507": "Qwen 3 Instruct 2507",
    "qwen3_vl": "Qwen 3 VL",
    "smolvlm": "SmolVLM",
}
"""Template of TRL -> the family in the table."""

LIMITS = RolloutConfig(max_tokens=100_000, max_call_tokens=2000, max_calls_per_turn=50)

Tools = Literal["template", "prompt"]
WAYS: tuple[Tools, ...] = ("template", "prompt")

_BAR = "\uff5c"
"""The bar of DeepSeek's tokens."""

_MARKS = re.compile(
    rf"<\|[A-Za-z0-9_/▁ ]{{1,40}}\|>|<{_BAR}[^{_BAR}]{{1,40}}{_BAR}>|<\|[a-z_]+>|<[a-z_]+\|>"
    r"|\[/?[A-Z_]{3,}\]|\[gMASK\]"
    r"|</?(?:s|think|tool_call|tool_response|arg_key|arg_value|start_of_turn|end_of_turn|sop"
    r"|end_of_utterance)>"
)
"""What templates write as tokens of their own."""

_ORDINARY = re.compile(r"</?(?:think|tool_call|tool_response|arg_key|arg_value)>")
"""Those that are not special in the tokenizers of their families."""

_ENDS = {
    "gemma4": "<turn|>",
    "gemma": "<end_of_turn>",
    "llama3": "<|eot_id|>",
    "deepseek": f"<{_BAR}end▁of▁sentence{_BAR}>",
    "gptoss": "<|return|>",
    "glm": "<|endoftext|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "phi3": "<|endoftext|>",
    "smolvlm": "<end_of_utterance>",
    "idefics3": "<end_of_utterance>",
    "llava": "</s>",
    "llama 2": "</s>",
    "mistral": "</s>",
    "muse": "<|eot|>",
    "zephyr": "</s>",
}
"""Beginning of a template's name -> the token that ends texts; others end them as ChatML does."""

_REASONS = {
    "needs a chat template that lists the tools": "lists no tools",
    "needs a chat template that writes calls": "writes calls in a form that is not read",
    "needs a reference that the policy can write": "writes texts with quotes unreadably",
    "no attribute 'id'": "its calls and answers have ids",
    "it must end an assistant message": "ends messages with no special token",
}
"""What an error says -> what the table says."""


def tokenizer_of(name: str, template: str) -> Any:
    """Return a small tokenizer with the special tokens of a template."""
    small = Tokenizer.from_str(models.trained())
    end = next(
        (token for begin, token in _ENDS.items() if name.lower().startswith(begin)), "<|im_end|>"
    )
    begin = "<bos>" if name.startswith("gemma") else "<|begin_of_text|>"
    words = sorted({*_MARKS.findall(template), end, begin})
    special = [word for word in words if not _ORDINARY.fullmatch(word)]
    small.add_special_tokens([AddedToken(word, normalized=False) for word in special])
    small.add_tokens([AddedToken(word, normalized=False) for word in {*words} - {*special}])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=small, eos_token=end, bos_token=begin)
    tokenizer.chat_template = template
    return tokenizer


def renderer_of(name: str, template: str, tools: Tools) -> ChatRenderer:
    """Return the renderer of a template. Raises ConfigError."""
    found = ChatTemplate(
        tokenizer_of(name, template),
        variables={"enable_thinking": False},
        tools=tools == "template",
    )
    return ChatRenderer(found, ChatConfig(tools=tools, system="Be brief."))


@cache
def conversation() -> Task:
    """Return `TASK`, of three turns, each of which has calls."""
    environment = {"use": "bfcl", "categories": ["base"], "seeds": 1000}
    source = Bfcl(RunConfig(name="families", environment=environment)).source()
    (task,) = (each for each in (*source.pool(), *source.held_out()) if each.task_id == TASK)
    body = read_body(task.body)
    return Task(
        task_id=task.task_id,
        split="train",
        origin=task.origin,
        body=body_of(ToolTask(classes=body.classes, world=body.world, turns=body.turns[:3])),
    )


def carry(renderer: ChatRenderer) -> None:
    """Hold the conversation as a policy that says what the template writes.

    Raises AssertionError if tokens, masks, calls or the verdict differ.
    """
    task = conversation()
    ids, mask = renderer.demonstration(task)
    agent = ToolAgent(
        generator=RecitingGenerator(ids, mask),
        simulator=InProcessSimulator(),
        renderer=renderer,
        limits=LIMITS,
        temperature=1.0,
    )
    played = asyncio.run(agent.attempt(task, "session", seed=0))
    turns = read_body(task.body).turns
    assert played.succeeded, played.ended
    assert played.tokens.token_ids == columns.int32(ids)
    assert played.tokens.mask == columns.uint8(mask)
    assert len(played.actions) == sum(len(turn.reference) for turn in turns)
    ends = [own for own, after in zip(mask, (*mask[1:], 0), strict=True) if own and not after]
    assert len(ends) == len(played.actions) + len(turns)


def verdict(name: str, template: str, tools: Tools) -> str:
    """Return the form of calls if the conversation works, else why not, in a few words."""
    try:
        renderer = renderer_of(name, template, tools)
        check_conversations(renderer, [conversation()], LIMITS, references=True)
        carry(renderer)
    except ConfigError as error:
        said = str(error)
        short = said.partition("cannot be used: ")[2].partition("; choose")[0] or said
        return "no: " + next((told for words, told in _REASONS.items() if words in said), short)
    return f"`{renderer.form}`" if tools == "template" else "yes"


def rows(folder: Path, names: Mapping[str, str]) -> list[str]:
    """Return the lines of the table for the templates of a folder."""
    found: list[str] = []
    for name, label in names.items():
        template = (folder / f"{name}.jinja").read_text("utf-8")
        ways = " | ".join(verdict(name, template, tools) for tools in WAYS)
        found.append(f"| {label} | {ways} |")
    return found


def main() -> None:
    """Print the table."""
    lines = rows(TRL, NAMES)
    for folder in map(Path, sys.argv[1:]):
        lines += rows(folder, {file.stem: file.stem for file in sorted(folder.glob("*.jinja"))})
    sys.stdout.write("| family | `template` | `prompt` |\n|---|---|---|\n")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
