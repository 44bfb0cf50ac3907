"""Foreign text reaches a person without its effect on a terminal or on the eye."""

import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.base.visible import UNSAFE, as_visible, visible, visible_output

ACTING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN", "B", "S"}
"""Bidirectional classes of controls, of characters without a place, and of separators."""

ANY_TEXT = st.text(st.characters())


def test_every_character_that_acts_or_hides_is_replaced():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        acts = unicodedata.bidirectional(character) in ACTING
        hides = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        if (acts or hides) and character not in "\n\t":
            assert UNSAFE.fullmatch(character), hex(code)


@pytest.mark.parametrize(
    "text", ["Größe: 5 µm", "日本語", "naïve\tline\nline", "العربية", "🙂", "e\u0301"]
)
def test_ordinary_text_stays_as_it_is(text: str):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\u001b]0;title\u0007"),
        ("\x9b31m", r"\u009b31m"),
        ("over\rwritten\x7f\b", r"over\u000dwritten\u007f\u0008"),
        ("a\u202eb\u2066c\u200bd\ufeff", r"a\u202eb\u2066c\u200bd\ufeff"),
        ("tag\U000e0041", r"tag\udb40\udc41"),
        ("\ud800", r"\ud800"),
    ],
)
def test_an_escape_says_which_character_was_there(text: str, shown: str):
    assert visible(text) == shown


@given(ANY_TEXT)
def test_nothing_unsafe_is_left_and_a_second_pass_changes_nothing(text: str):
    shown = visible(text)
    assert not UNSAFE.search(shown)
    assert visible(shown) == shown


@given(ANY_TEXT)
def test_a_json_document_keeps_its_meaning(text: str):
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def test_whatever_is_printed_in_the_block_is_visible(capsys: pytest.CaptureFixture[str]):
    with visible_output(), visible_output():
        sys.stdout.writelines(["\x1b[2J", "\u202e"])
        sys.stderr.write("\x07\n")
        sys.stdout.buffer.write("é\x9b".encode())
    sys.stdout.write("\x1b[0m")
    shown = capsys.readouterr()
    assert shown == (r"\u001b[2J\u202eé\u009b" "\x1b[0m", r"\u0007" "\n")


def test_a_stream_is_wrapped_once():
    stream = as_visible(io.StringIO())
    assert as_visible(stream) is stream
    assert stream.write("\x1b") == 1
