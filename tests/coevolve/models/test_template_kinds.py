"""Templates that differ from others in roles, ends, clocks and names, each from a model folder."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from coevolve.environments.appworld.renderer import CodeRenderer
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.models.chat_template import ChatTemplate, Message
from coevolve.models.model_files import has_chat_template
from protocols.config import ChatConfig
from protocols.errors import ConfigError
from tests.coevolve.environments.tools.chat import models

SYSTEM: Message = {"role": "system", "content": "Be brief."}
USER: Message = {"role": "user", "content": "Begin."}

NO_SYSTEM: Mapping[str, str] = {
    "refuses the first message": "{% if messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + models.PLAIN,
    "refuses every other role": models.PLAIN.replace(
        "<|im_start|>{{ message.role }}",
        "{% if message.role not in ['user', 'assistant'] %}{{ raise_exception('Only two') }}"
        "{% endif %}<|im_start|>{{ message.role }}",
    ),
    "refuses what does not alternate": models.PLAIN.replace(
        "<|im_start|>{{ message.role }}",
        "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate') }}{% endif %}<|im_start|>{{ message.role }}",
    ),
    "leaves system messages out": models.PLAIN.replace(
        "{%- for message in messages %}",
        "{%- for message in messages if message.role != 'system' %}",
    ),
}


def template_of(source: Any, *, tools: bool = False) -> ChatTemplate:
    tokenizer: PreTrainedTokenizerFast = models.tokenizer_with("")
    tokenizer.chat_template = source
    return ChatTemplate(tokenizer, variables={}, tools=tools)


@pytest.mark.parametrize("kind", NO_SYSTEM)
def test_without_a_system_role_its_text_begins_the_first_message_of_the_user(kind: str) -> None:
    template = template_of(NO_SYSTEM[kind])
    whole = template.decode(template.opening([SYSTEM, USER]))
    folded = template.decode(template.opening([{"role": "user", "content": "Be brief.\n\nBegin."}]))
    assert whole == folded
    assert whole.count("Be brief.") == 1
    renderer = ChatRenderer(template, ChatConfig(tools="prompt", system="Be brief."))
    assert renderer.form == "python"
    CodeRenderer(template, ChatConfig(system="Be brief."))


def test_a_system_role_is_used_where_there_is_one() -> None:
    template = template_of(models.PLAIN)
    assert "<|im_start|>system\nBe brief.<|im_end|>" in template.render(
        [SYSTEM, USER], prompts=True
    )


CLOCKS = (
    "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}",
    "{% if messages[0].role != 'system' %}Today: {{ strftime_now('%d %b %Y') }}{% endif %}",
    "{% set now = strftime_now('%s %j') %}{{ now }}",
    "{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}",
)


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_clock_of_a_template_stands_still(clock: str) -> None:
    read = clock + models.PLAIN
    shown = template_of(read).render([USER], prompts=True)
    assert shown.startswith(
        (datetime(2024, 7, 26).strftime("%Y-%m-%d"), "Today: 26 Jul 2024", "26 Jul 2024")
        if "%s" not in clock
        else datetime(2024, 7, 26).strftime("%s")
    )
    assert template_of(read).opening([USER]) == template_of(read).opening([USER])


NAMED = {"default": models.PLAIN, "tool_use": models.TAGS}


def test_of_named_templates_the_one_for_tools_is_used_for_all_of_a_conversation(
    tmp_path: Path,
) -> None:
    tokenizer: Any = models.tokenizer_with("")
    tokenizer.chat_template = NAMED
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    assert has_chat_template(tmp_path)
    tags, lists = (
        ChatRenderer.load(tmp_path, ChatConfig(tools=tools)) for tools in ("template", "prompt")
    )
    assert (tags.form, lists.form) == ("tags", "python")
    alone = ChatRenderer(template_of(models.TAGS), ChatConfig())
    assert tags.observation(("1", "2")) == alone.observation(("1", "2"))


@pytest.mark.parametrize(
    ("names", "tools", "works"),
    [
        ({"default": models.PLAIN}, True, True),
        ({"default": models.PLAIN, "rag": "{{ raise_exception('no') }}"}, True, True),
        ({"tool_use": models.TAGS}, True, True),
        ({"tool_use": models.TAGS}, False, False),
        ({"rag": models.PLAIN}, True, False),
        ({}, False, False),
    ],
)
def test_a_name_that_is_needed_and_missing_is_told(
    names: Mapping[str, str], tools: bool, works: bool
) -> None:
    if works:
        template_of(names, tools=tools)
    else:
        with pytest.raises(ConfigError, match="with the name default, found"):
            template_of(names, tools=tools)


def test_a_folder_with_a_template_for_tools_alone_has_a_template(tmp_path: Path) -> None:
    tokenizer: Any = models.tokenizer_with("")
    tokenizer.chat_template = {"tool_use": models.TAGS}
    tokenizer.save_pretrained(tmp_path)
    assert has_chat_template(tmp_path)


OPEN = models.PLAIN.replace("<|im_end|>\n", "\n")
"""The token that begins the next message ends one, as in GLM."""


def test_the_token_that_begins_the_next_message_may_end_one() -> None:
    template = template_of(OPEN)
    begin = template.encode("<|im_start|>")
    assert template.end == ""
    assert template.stop_ids[:1] == begin
    said = template.written({"role": "assistant", "content": "Done."})
    assert template.decode(said) == "Done.<|im_start|>"
    other = template.encode("Done.<|endoftext|>")
    assert template.after([USER], said) == template.after([USER], other)[1:]
    assert template.after([USER], other)[:1] == begin
    whole = template.opening([USER]) + said + template.after([USER], said)
    assert template.decode(whole) == (
        "<|im_start|>user\nBegin.\n<|im_start|>assistant\nDone.<|im_start|>user\nBegin.\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    "text",
    ["a\n\nb", "<table><b>x</b></table>", "  two  blanks  ", "<|im_end|>x", "<|im_start|>system"],
)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_contents_reach_the_policy_unchanged(text: str, role: str) -> None:
    tokenizer: Any = models.tokenizer_with(models.PLAIN)
    marks = ["\n\n", "<table>", "</table>", "<b>", "</b>", "  "]
    tokenizer.add_tokens(marks)
    template = ChatTemplate(tokenizer, variables={})
    messages = [{"role": role, "content": text}, USER]
    ids = template.opening(messages)
    assert text in template.decode(ids)
    plain = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    if "<|" not in text:
        assert list(ids) == tokenizer.encode(plain, add_special_tokens=False)
    else:
        assert template.decode(ids) == plain
        assert len(ids) > len(tokenizer.encode(plain, add_special_tokens=False))


def test_descriptions_and_names_of_tools_spell_no_token_of_the_format() -> None:
    template = template_of(models.TAGS, tools=True)
    function = {
        "name": "f",
        "description": "Ends <|im_end|> it.",
        "parameters": {"a": "<tool_call>"},
    }
    tool = {"type": "function", "function": function}
    ids = template.opening([USER], [tool])
    plain = {"type": "function", "function": function | {"description": "", "parameters": {}}}
    for word in ("<|im_end|>", "<tool_call>"):
        (token,) = template.encode(word)
        assert ids.count(token) == template.opening([USER], [plain]).count(token)
    assert json.dumps(function) in template.decode(ids)
