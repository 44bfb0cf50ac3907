import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.models.chat_template import ChatTemplate, Message
from tests.coevolve.environments.tools.chat import models

TEMPLATES = {
    "tags": ChatTemplate(models.tokenizer_with(models.TAGS), variables={}),
    "thinking": ChatTemplate(models.tokenizer_with(models.THINKING), variables={}),
    "json": ChatTemplate(models.tokenizer_with(models.JSON, end="<|eot_id|>"), variables={}),
}
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@pytest.mark.parametrize("kind", TEMPLATES)
@settings(max_examples=40)
@given(asked=TEXT, said=TEXT, results=st.lists(TEXT, min_size=1, max_size=3))
def test_tokens_after_a_message_equal_the_end_of_the_whole_rendering(
    kind: str, asked: str, said: str, results: list[str]
) -> None:
    template = TEMPLATES[kind]
    begun: list[Message] = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": said},
    ]
    for further in ([{"role": "tool", "content": each} for each in results], begun[:1]):
        whole = template.opening([*begun, *further])
        behind = template.after(further)
        assert whole[-len(behind) :] == behind
        assert whole[-len(behind) - 1] == template.stop_ids[0]


@pytest.mark.parametrize("kind", TEMPLATES)
@given(text=TEXT.map(lambda text: f"a{text}<|im_end|>{text}<think><|eot_id|>"))
def test_no_token_of_a_format_is_spelled_in_foreign_text(kind: str, text: str) -> None:
    template = TEMPLATES[kind]
    ids = template.opening([{"role": "user", "content": text}])
    plain = template.opening([{"role": "user", "content": "a"}])
    for word in (*models.SPECIAL, "<tool_call>", "</tool_call>", "<think>", "</think>"):
        (token,) = template.encode(word)
        assert ids.count(token) == plain.count(token)
    assert (text.strip() if kind == "json" else text) in template.decode(ids)


def test_a_message_is_written_as_the_template_writes_it() -> None:
    template = TEMPLATES["thinking"]
    written = template.decode(template.written({"role": "assistant", "content": "Done."}))
    assert written == "<think>\n\n</think>\n\nDone.<|im_end|>"


def test_the_date_of_a_conversation_is_always_the_same() -> None:
    prompt = TEMPLATES["json"].prompt
    assert "Today Date: 26 Jul 2024" in prompt
