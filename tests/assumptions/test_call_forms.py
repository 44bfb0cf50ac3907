"""What the reading of calls assumes of vLLM's parsers, templates of TRL, json and ast."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

TEMPLATES = "chat_templates"


def parser_source(name: str) -> str:
    """Return the source of one of vLLM's parsers, without importing vLLM, which takes seconds."""
    import importlib.util

    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    return (Path(spec.origin).parent / name).read_text()


def template(name: str) -> str:
    import trl

    return (Path(trl.__file__).parent / TEMPLATES / f"{name}.jinja").read_text()


def test_raw_decode_returns_the_end_of_the_first_json_value():
    """`json.JSONDecoder.raw_decode` ends at the first value, whatever text follows.

    Needed by: coevolve/environments/tools/chat/json_forms.py, coevolve/llm/reading.py
    """
    text = '{"a": "</tool_call>"}</tool_call>'
    assert json.JSONDecoder().raw_decode(text) == ({"a": "</tool_call>"}, len(text) - 12)


def test_a_json_text_too_deep_is_a_recursion_error():
    """Python's JSON decoder raises RecursionError for a value that is nested too deep.

    Needed by: coevolve/environments/tools/chat/json_forms.py, coevolve/llm/reading.py
    """
    with pytest.raises(RecursionError):
        json.JSONDecoder().raw_decode("[" * 200_000)


def test_ast_counts_columns_in_bytes():
    """Columns of a node of `ast` count the bytes of UTF-8 and not the characters.

    Needed by: coevolve/environments/tools/chat/python_forms.py
    """
    node: Any = ast.parse("['ü', f()]", mode="eval").body
    assert node.elts[1].col_offset == 7


def test_vllm_serves_each_form_with_the_parser_of_that_name():
    """vLLM has tool parsers named hermes, qwen3_xml, glm47, llama3_json, lfm2 and pythonic.

    Needed by: coevolve/environments/tools/chat/calls.py
    """
    from coevolve.environments.tools.chat.calls import SERVED_BY

    source = parser_source("tool_parsers/__init__.py")
    assert all(f'"{name}": (' in source for name in SERVED_BY.values())


def test_vllm_needs_arguments_in_a_tagged_call():
    """vLLM's parser hermes takes a call without the key arguments for words.

    Needed by: coevolve/environments/tools/chat/json_forms.py
    """
    assert 'function_call["arguments"]' in parser_source("tool_parsers/hermes_tool_parser.py")


def test_qwen_3_5_and_nemotron_write_a_tag_for_each_argument():
    """The templates of Qwen 3.5, 3.6, 3.8 and Nemotron 3 write each argument as a parameter tag.

    Needed by: coevolve/environments/tools/chat/tagged_forms.py
    """
    for name in ("qwen3_5_think", "qwen3_6", "qwen3_8", "nemotron_3_nano", "nemotron_3_super"):
        assert "<tool_call>\\n<function=' " in template(name)
        assert "'<parameter=' " in template(name)


def test_glm_writes_two_tags_for_each_argument():
    """The template of GLM 4.5 writes each argument as a key and a value in tags of their own.

    Needed by: coevolve/environments/tools/chat/tagged_forms.py
    """
    found = template("glm4moe")
    assert "<arg_key>{{ k }}</arg_key>\n<arg_value>{{" in found


def test_the_first_template_of_lfm2_writes_no_calls():
    """The first template of LFM2 lists tools between tokens and leaves calls to the content.

    Needed by: coevolve/environments/tools/chat/renderer.py
    """
    found = template("lfm2")
    assert "<|tool_list_start|>" in found
    assert "tool_calls" not in found
    assert "<|tool_call_start|>" in template("lfm2_v2")


def test_lfm2_5_writes_texts_without_escapes():
    """The template of LFM2.5 puts quotes around a text and does not escape those in it.

    Needed by: coevolve/environments/tools/chat/python_forms.py
    """
    assert """"'" + arg_value + "'\"""" in template("lfm2_2_5")


def test_qwen_opens_the_thinking_in_the_generation_prompt():
    """The generation prompt of Qwen 3.5 ends with an open think tag if the model should think.

    Needed by: coevolve/llm/reading.py
    """
    assert "{{- '<think>\\n' }}" in template("qwen3_5_think").rpartition("add_generation_prompt")[2]
