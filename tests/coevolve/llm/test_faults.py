"""What a server says about its error reaches the user, and nobody asks again in vain."""

import pytest

from coevolve.llm.client import Chat, PromptMessage
from tests.asking import QUESTION, ask, refusal
from tests.chat_server import Behaviour, replies, serving
from tests.synthesizing import model_at

NO_CREDIT = "no credit or quota left"
KEY = "set it to a key that this server accepts"


def error(**fields: object) -> dict[str, object]:
    return {"error": fields}


FINAL: dict[str, tuple[Behaviour, str, str]] = {
    "no quota": (
        replies(error(message="You exceeded your quota", code="insufficient_quota"), 429),
        "You exceeded your quota",
        NO_CREDIT,
    ),
    "no quota, by its type": (
        replies(error(message="no", type="insufficient_quota", code=None), 429),
        "insufficient_quota",
        NO_CREDIT,
    ),
    "no quota with status 200": (
        replies(error(message="no", type="insufficient_quota")),
        "insufficient_quota",
        NO_CREDIT,
    ),
    "no balance": (replies(error(message="Insufficient Balance"), 402), "Balance", NO_CREDIT),
    "no credit with status 400": (
        replies({"type": "error", "error": {"message": "Your credit balance is too low"}}, 400),
        "too low",
        NO_CREDIT,
    ),
    "a wrong key with status 200": (replies(error(message="bad key", code=401)), "bad key", KEY),
    "a wrong key, by its name": (
        replies(error(message="bad key", type="authentication_error")),
        "bad key",
        KEY,
    ),
    "an unknown model with status 200": (
        replies(error(message="no model m", code="model_not_found")),
        "no model m",
        "has this model",
    ),
    "a filter of prompts": (
        replies(error(message="The prompt was filtered", code="content_filter"), 400),
        "The prompt was filtered",
        "content filter",
    ),
}


@pytest.mark.parametrize("name", FINAL)
async def test_what_no_try_changes_is_told_after_one_answer(name: str) -> None:
    behaviour, reason, remedy = FINAL[name]
    with serving(lambda messages: "well") as server:
        # A server may refuse a setting with the same status, which is one more request.
        server.then(behaviour, behaviour)
        found = await refusal(server.base_url, tries=4)
    assert reason in found
    assert remedy in found
    assert "check that base_url is that of" not in found
    assert " in 1 try: " in found
    assert len(server.requests) <= 2


PASSING: dict[str, object] = {
    "an object with a number": error(message="overloaded", code=502),
    "a number as text": error(message="overloaded", code="503"),
    "a text": {"error": "overloaded"},
    "a list": [error(code=429, message="overloaded", status="RESOURCE_EXHAUSTED")],
    "a type only": error(type="overloaded_error"),
    "a type beside": {"type": "error", "error": {"type": "api_error", "message": "overloaded"}},
    "a message": {"object": "error", "message": "overloaded", "code": 50001},
    "a detail": {"detail": "overloaded"},
    "an error of a choice": {"choices": [error(message="overloaded", code=502)]},
    "limits per minute": error(message="You exceeded your current quota: overloaded", code=429),
}


@pytest.mark.parametrize("name", PASSING)
async def test_an_error_with_status_200_is_told_as_an_error_and_tried_again(name: str) -> None:
    with serving(lambda messages: "well") as server:
        server.then(replies(PASSING[name]))
        assert (await ask(server.base_url, tries=2)).text == "well"
        server.then(replies(PASSING[name]))
        found = await refusal(server.base_url, tries=1)
    assert "an error with status 200: " in found
    assert "overloaded" in found
    assert "wait until the server has recovered" in found
    assert "base_url is" not in found


NO_SYSTEM: dict[str, Behaviour] = {
    "Gemma's template": replies(error(message="System role not supported"), 400),
    "Mistral's template": replies(
        error(message="Conversation roles must alternate user/assistant/user/assistant/..."), 400
    ),
    "a template in a server that says 500": replies(
        error(code=500, message="Jinja Exception: System role not supported"), 500
    ),
    "Gemma's server": replies(
        [error(code=400, message="Developer instruction is not enabled for models/gemma")], 400
    ),
    "a model that thinks": replies(
        error(message="'messages[0].role' does not support 'system' with this model."), 400
    ),
    "a template with status 200": replies(
        error(message="Only user and assistant roles are supported!", code=400)
    ),
}


@pytest.mark.parametrize("name", NO_SYSTEM)
async def test_a_server_without_a_system_role_gets_its_text_from_the_user(name: str) -> None:
    with serving(lambda messages: "well") as server:
        server.then(NO_SYSTEM[name])
        assert (await ask(server.base_url, tries=1)).text == "well"
    assert [each.body["messages"] for each in server.requests] == [
        [{"role": each.role, "content": each.content} for each in QUESTION],
        [{"role": "user", "content": "Be brief.\n\nWell?"}],
    ]


async def test_only_the_first_message_of_a_talk_gets_the_text_of_a_missing_system_role() -> None:
    talk = (*QUESTION, PromptMessage(role="assistant", content="No."), QUESTION[-1])
    with serving(lambda messages: "well") as server:
        server.then(NO_SYSTEM["Gemma's template"])
        chat = Chat(model_at(server.base_url, tries=1))
        await chat.ask(talk)
        await chat.close()
    assert [each["content"] for each in server.requests[-1].body["messages"]] == [
        "Be brief.\n\nWell?",
        "No.",
        "Well?",
    ]
