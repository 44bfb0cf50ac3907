import json
import time

import pytest

from coevolve.environments.hdl.policy.prompts import UnreadableAnswerError, extract
from coevolve.environments.hdl.simulate.messages import Patch, Testbench
from coevolve.environments.tools.synthesis.answers import read_judgement, read_move
from coevolve.llm.reading import (
    UnfinishedThinkingError,
    opens_thinking,
    spoken,
    without_thoughts,
)


@pytest.mark.parametrize(
    ("text", "thinking", "words"),
    [
        ("<think>\n[ls()]\n</think>\n\nDone.", False, "Done."),
        ("\n <think>So.</think>Done.", False, "Done."),
        ("ls?</think>Done.", True, "Done."),
        ("Done.", False, "Done."),
        ("I say </think> here.", False, "I say </think> here."),
        ('{"a": "x </think> y"}', False, '{"a": "x </think> y"}'),
        ('<think>So.</think>{"a": "x </think> y"}', False, '{"a": "x </think> y"}'),
        ("[f(a='</think>')]", False, "[f(a='</think>')]"),
        ("So.</think>[f(a='<think></think>')]", True, "[f(a='<think></think>')]"),
    ],
)
def test_thinking_is_cut_off_only_where_it_can_begin(text: str, thinking: bool, words: str) -> None:
    assert spoken(text, thinking=thinking) == words


@pytest.mark.parametrize(("text", "thinking"), [("<think>\nHm", False), ("Hm", True)])
def test_thinking_without_end_is_refused(text: str, thinking: bool) -> None:
    with pytest.raises(UnfinishedThinkingError, match="needs to end its thinking by </think>"):
        spoken(text, thinking=thinking)


def test_a_prompt_says_whether_it_opens_the_thinking() -> None:
    assert opens_thinking("<|im_start|>assistant\n<think>\n")
    assert not opens_thinking("<|im_start|>assistant\n<think>\n\n</think>\n\n")


OBJECT = json.dumps({"reason": "ends with </think> here", "action": "ls()"})


@pytest.mark.parametrize(
    "answer",
    [
        OBJECT,
        f"So: {OBJECT}",
        f"<think>x {{</think>{OBJECT}",
        f'{{"action": "pwd()"}} or?</think>\n{OBJECT}',
        f"```json\n{OBJECT}\n```",
        f"Thoughts, {{ and so.\n</think>\n\n```json\n{OBJECT}\n```\nDone.",
        f"One.</think>Two.</think>{OBJECT}",
    ],
)
def test_an_endpoints_object_is_found_whole_after_its_thoughts(answer: str) -> None:
    assert read_move(answer).action == "ls()"
    assert read_move(answer).reason == "ends with </think> here"


def test_an_object_in_the_thoughts_is_no_answer() -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        read_judgement('{"success": true}</think> I cannot say.')


BENCH = 'module tb;\n  initial $display("</think>");\nendmodule\n'


@pytest.mark.parametrize(
    "answer",
    [
        f"filename: tb.sv\n```systemverilog\n{BENCH}```",
        f"```systemverilog\r\n{BENCH}```\r\n",
        f"<think>\n```\nno\n```\n</think>\n```SystemVerilog\n{BENCH}```",
        f"First I look:\n```\nno\n```\nSo.</think>\n\n```\n{BENCH}```",
    ],
)
def test_a_testbench_is_read_whole_after_the_thoughts(answer: str) -> None:
    found = extract(answer, "testbench")
    assert isinstance(found, Testbench)
    assert found.text.replace("\r", "") == BENCH


def test_a_bare_patch_is_not_cut() -> None:
    patch = '@@\n module tb;\n+  initial $display("</think>");'
    found = extract(patch, "patch", BENCH)
    assert isinstance(found, Patch)
    assert found.text == patch


def test_an_answer_that_only_thinks_is_named() -> None:
    with pytest.raises(UnreadableAnswerError, match="still thinking"):
        extract("<think>\nHm", "testbench")


@pytest.mark.parametrize("piece", ["{", '{"a":', "```\n", "</think>", '{"a": [1, '])
def test_long_answers_are_read_in_time(piece: str) -> None:
    began = time.monotonic()
    without_thoughts(piece * (100_000 // len(piece)))
    assert time.monotonic() - began < 10
