"""Round trips of values through chat templates of model families, as TRL ships them."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.chat.call_text import call_text
from coevolve.environments.tools.chat.calls import CallForm, read_calls
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.environments.tools.chat.typed import alike
from coevolve.models.chat_template import ChatTemplate, Message
from protocols.config import ChatConfig
from protocols.errors import ConfigError
from tests.coevolve.environments.tools.chat.written import TYPES, values

FOLDER = Path(trl.__file__).parent / "chat_templates"
FORMS: dict[str, CallForm] = {
    "qwen2_5": "tags",
    "qwen3": "tags",
    "qwen3_instruct_2507": "tags",
    "qwen3_vl": "tags",
    "qwen3_5_think": "xml",
    "qwen3_5_nothink": "xml",
    "qwen3_6": "xml",
    "qwen3_8": "xml",
    "nemotron_3_nano": "xml",
    "nemotron_3_super": "xml",
    "nemotron_3_ultra": "xml",
    "nemotron_3_5_lightning": "xml",
    "glm4moe": "keys",
    "llama3_1": "json",
    "llama3_2": "json",
    "lfm2": "wrapped",
    "lfm2_v2": "wrapped",
    "lfm2_2_5": "wrapped",
    "lfm2_2_5_v2": "wrapped",
}
LOST = {"tags": 0, "json": 0, "xml": 40, "keys": 40, "wrapped": 60}
"""Most of 200 values that a template may write so that they cannot be read back. LFM2.5 does not
escape texts, and the forms with tags for arguments have no quotes."""

SPECIAL = re.compile(
    r"<\|[\w ]+\|>|<\uff5c[^\uff5c]+\uff5c>|<(?:start|end)_of_turn>|\[gMASK\]|<sop>"
)
WORDS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
)


@functools.cache
def renderer_of(name: str) -> tuple[ChatRenderer, ChatTemplate]:
    source = (FOLDER / f"{name}.jinja").read_text()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={char: n for n, char in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = sorted({*SPECIAL.findall(source), "<bos>", "<eos>"})
    raw.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in special])
    raw.add_tokens([AddedToken(each, special=False, normalized=False) for each in WORDS])
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<eos>", bos_token="<bos>"
    )
    tokenizer.chat_template = source
    chat = ChatConfig()
    template = ChatTemplate(tokenizer, variables={"enable_thinking": False}, tools=True)
    return ChatRenderer(template, chat), template


@pytest.mark.parametrize(("name", "form"), FORMS.items())
def test_a_family_writes_calls_in_its_own_form(name: str, form: CallForm) -> None:
    assert renderer_of(name)[0].form == form


@pytest.mark.parametrize(("name", "form"), FORMS.items())
def test_what_a_template_writes_is_read_back_or_not_at_all(name: str, form: CallForm) -> None:
    renderer, template = renderer_of(name)
    lost = other = 0
    for value in values():
        arguments: dict[str, object] = {"key": "a", "value": value}
        try:
            said = template.said(template.written(calling(form, name, arguments)))
            found = read_calls(renderer.form, said, TYPES)
        except (ValueError, ConfigError):
            lost += 1
            continue
        read = [parse_call(call, {"put"}).named for call in found]
        # A text that looks like another value is one that the check of references names.
        other += not (len(read) == 1 and alike(read[0], arguments))
    assert lost + other <= LOST[form]


def calling(form: CallForm, name: str, arguments: dict[str, object]) -> Message:
    if name == "lfm2":
        call = call_text("put", arguments)
        content = f"<|tool_call_start|>[{call}]<|tool_call_end|>"
        return {"role": "assistant", "content": content}
    function = {"name": "put", "arguments": arguments}
    calls = [{"type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


@pytest.mark.parametrize("name", ["gemma", "phi3", "llama3", "cohere", "deepseekv3", "qwen2_5_vl"])
def test_a_template_without_tools_is_refused_with_what_prompt_would_ask_for(name: str) -> None:
    with pytest.raises(ConfigError, match="lists of Python calls, a form that the model may never"):
        renderer_of(name)
