"""Content is read in each form that servers send; only text is an answer."""

import pytest

from tests.asking import ask, refusal
from tests.chat_server import replies, says, serving

ANSWER = '{"ok": true}'


def message(**fields: object) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": "stop"}
    return {"choices": [choice]}


CONTENTS: dict[str, object] = {
    "a text": ANSWER,
    "one part": [{"type": "text", "text": ANSWER}],
    "two parts": [{"type": "text", "text": '{"ok"'}, {"type": "text", "text": ": true}"}],
    "thoughts before": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": ANSWER},
    ],
    "thoughts as text": [
        {"type": "reasoning", "text": "hm"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "output_text", "text": ANSWER, "annotations": []},
    ],
    "a part without text": [{"type": "text", "text": None}, {"type": "text", "text": ANSWER}],
    "a part that is a text": [ANSWER],
    "a part without a type": [{"text": ANSWER}],
    "a text with annotations": [{"type": "text", "text": {"value": ANSWER, "annotations": []}}],
    "a part outside a list": {"type": "text", "text": ANSWER},
}


@pytest.mark.parametrize("name", CONTENTS)
async def test_text_is_joined_and_thoughts_are_left_out(name: str) -> None:
    with serving() as server:
        server.then(replies(message(content=CONTENTS[name])))
        assert (await ask(server.base_url, tries=1)).text == ANSWER


@pytest.mark.parametrize(
    "content", [None, [], [{"type": "thinking", "thinking": "hm"}], [{"type": "text"}]]
)
async def test_thoughts_alone_are_an_empty_answer(content: object) -> None:
    with serving() as server:
        server.then(replies(message(content=content)))
        assert (await ask(server.base_url, tries=1)).text == ""


REFUSALS: dict[str, dict[str, object]] = {
    "a field": message(content=None, refusal="I cannot help."),
    "a field beside an empty text": message(content="", refusal="I cannot help."),
    "a part": message(content=[{"type": "refusal", "refusal": "I cannot help."}]),
    "an end": {
        "choices": [
            {
                "finish_reason": "refusal",
                "message": {"content": None, "refusal": "I cannot help."},
            }
        ]
    },
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_is_told_and_not_asked_again(name: str) -> None:
    with serving(lambda messages: "well") as server:
        server.then(replies(REFUSALS[name]))
        found = await refusal(server.base_url)
    assert "the model refuses: I cannot help." in found
    assert "base_url is" not in found
    assert len(server.requests) == 1


@pytest.mark.parametrize("content", [None, "Half of"])
async def test_a_filtered_answer_is_told_and_not_asked_again(content: object) -> None:
    with serving(lambda messages: "well") as server:
        filtered = {"finish_reason": "content_filter", "message": {"content": content}}
        server.then(replies({"choices": [filtered]}))
        found = await refusal(server.base_url)
    assert "content filter withheld the answer" in found
    assert len(server.requests) == 1


async def test_a_text_beside_an_empty_refusal_is_an_answer() -> None:
    with serving() as server:
        server.then(replies(message(content=ANSWER, refusal="")))
        assert (await ask(server.base_url, tries=1)).text == ANSWER


async def test_an_empty_list_of_choices_has_a_sentence_of_its_own_and_is_tried_again() -> None:
    with serving(lambda messages: "well") as server:
        server.then(replies({"choices": []}))
        assert (await ask(server.base_url)).text == "well"
        server.then(replies({"choices": []}))
        assert "its answer has no choices" in await refusal(server.base_url, tries=1)


async def test_a_number_is_no_content() -> None:
    with serving() as server:
        server.then(replies(message(content=17)), says(ANSWER))
        assert (await ask(server.base_url, tries=2)).text == ANSWER
        assert len(server.requests) == 2
