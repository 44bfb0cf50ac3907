import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from coevolve.llm.client import (
    FIRST_PAUSE_S,
    Chat,
    PromptMessage,
    Said,
    cost_usd,
    most_prompt_tokens,
)
from protocols.errors import DependencyError, EndpointError
from tests.chat_server import (
    Behaviour,
    ChatServer,
    dribbles,
    drops_half_way,
    fails,
    hangs_up,
    is_a_web_page,
    is_no_json,
    is_slow,
    says,
    serving,
)
from tests.synthesizing import model_at

QUESTION = (
    PromptMessage(role="system", content="Be brief."),
    PromptMessage(role="user", content="Well?"),
)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(lambda messages: "well") as server:
        yield server


async def ask(server: ChatServer, **changes: object) -> Said:
    chat = Chat(model_at(server.base_url, **changes))
    try:
        return await chat.ask(QUESTION)
    finally:
        await chat.close()


async def refusal(server: ChatServer, **changes: object) -> str:
    with pytest.raises(EndpointError) as caught:
        await ask(server, **changes)
    return str(caught.value)


async def test_an_answer_comes_with_what_it_took(server: ChatServer) -> None:
    said = await ask(server, temperature=0.4, max_answer_tokens=77)
    assert (said.text, said.prompt_tokens, said.answer_tokens) == ("well", 3, 1)
    assert 0 < said.wall_s < 5
    (request,) = server.requests
    assert request.body == {
        "model": "scripted",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Well?"},
        ],
        "temperature": 0.4,
        "max_tokens": 77,
        "response_format": {"type": "json_object"},
    }


async def test_a_call_may_have_a_shorter_answer_than_the_models_longest(server: ChatServer) -> None:
    chat = Chat(model_at(server.base_url, max_answer_tokens=77), form="text")
    await chat.ask(QUESTION, 5)
    await chat.ask(QUESTION)
    await chat.close()
    assert [request.body["max_tokens"] for request in server.requests] == [5, 77]
    assert not any("response_format" in request.body for request in server.requests)


async def test_tokens_are_estimated_where_the_server_counts_none() -> None:
    with serving(lambda messages: "é" * 10, counts_tokens=False) as server:
        said = await ask(server)
    assert (said.prompt_tokens, said.answer_tokens) == (4, 5)


async def test_an_answer_without_text_is_empty(server: ChatServer) -> None:
    server.then(says(None))
    assert (await ask(server)).text == ""


async def test_the_key_comes_from_the_named_variable(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("COEVOLVE_TEST_KEY", "sk-right")
    await ask(server, key_variable="COEVOLVE_TEST_KEY")
    assert [request.authorization for request in server.requests] == ["Bearer sk-right"]


async def test_a_named_variable_that_is_not_set_is_refused_and_nobody_is_asked(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COEVOLVE_TEST_KEY", raising=False)
    with pytest.raises(DependencyError, match="COEVOLVE_TEST_KEY is not set in this environment"):
        await ask(server, key_variable="COEVOLVE_TEST_KEY")
    assert not server.requests


async def test_a_server_without_keys_needs_no_variable(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    await ask(server)
    monkeypatch.setenv("OPENAI_API_KEY", " sk-usual\n")  # as a file has it
    await ask(server)
    assert [each.authorization for each in server.requests] == ["Bearer none", "Bearer sk-usual"]


PASSING: dict[str, Behaviour] = {
    "status 500": fails(500),
    "status 503": fails(503),
    "status 429": fails(429),
    "half a body": drops_half_way,
    "no answer at all": hangs_up,
    "a body that is no JSON": is_no_json,
    "a web page": is_a_web_page,
}


@pytest.mark.parametrize("name", PASSING)
async def test_a_passing_fault_is_tried_again(server: ChatServer, name: str) -> None:
    server.then(PASSING[name])
    assert (await ask(server)).text == "well"
    assert len(server.requests) == 2


async def test_the_pause_doubles_with_each_try(server: ChatServer) -> None:
    server.then(fails(500), fails(500))
    assert (await ask(server, tries=3)).wall_s >= 3 * FIRST_PAUSE_S


LASTING: dict[str, tuple[Behaviour, str]] = {
    "status 500": (fails(500, "out of order"), "out of order"),
    "half a body": (drops_half_way, "the connection failed"),
    "a body that is no JSON": (is_no_json, "its answer is not a chat completion"),
    "a web page": (is_a_web_page, "ends in /v1"),
}


@pytest.mark.parametrize("name", LASTING)
async def test_a_lasting_fault_is_an_error_after_all_tries(server: ChatServer, name: str) -> None:
    behaviour, words = LASTING[name]
    server.then(behaviour, behaviour)
    message = await refusal(server, tries=2)
    assert len(server.requests) == 2
    assert message.startswith(
        f"the model scripted at {server.base_url} was asked for a chat completion and gave none "
        "in 2 tries: "
    )
    assert words in message


async def test_an_error_sent_as_an_answer_is_quoted(
    server: ChatServer,
) -> None:
    server.then(fails(200, "the model is overloaded"))
    assert "the model is overloaded" in await refusal(server, tries=1)


async def test_an_unreachable_address_is_an_error() -> None:
    with serving() as server:
        pass
    assert "check that the server runs" in await refusal(server, tries=1)


@pytest.mark.parametrize("hang", [is_slow, dribbles])
async def test_a_call_takes_no_longer_than_its_tries(
    server: ChatServer, hang: Callable[..., None]
) -> None:
    server.then(hang, hang)
    started = time.monotonic()
    message = await refusal(server, tries=2, timeout_s=0.6)
    assert time.monotonic() - started < 10
    assert "no answer within" in message
    assert "timeout_s" in message


async def test_a_slow_answer_is_tried_again(server: ChatServer) -> None:
    server.then(is_slow)
    assert (await ask(server, timeout_s=3.0)).text == "well"


@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_waited_for(server: ChatServer, as_date: bool) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.then(fails(429, headers={"Retry-After": date if as_date else "1"}))
    started = time.monotonic()
    assert (await ask(server)).text == "well"
    assert 0.9 < time.monotonic() - started < 30


async def test_a_retry_after_beyond_all_tries_is_not_waited_for(server: ChatServer) -> None:
    server.then(fails(429, "too many", {"Retry-After": "3600"}))
    started = time.monotonic()
    message = await refusal(server)
    assert time.monotonic() - started < 30
    assert "too many" in message
    assert "the next try would be 3600 s later" in message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_nothing_reaches_its_target(
    server: ChatServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVOLVE_TEST_KEY", "sk-secret")
    with serving(lambda messages: "well") as other:
        target = f"{other.base_url}/chat/completions"
        server.then(fails(status, "moved", {"Location": target}))
        message = await refusal(server, key_variable="COEVOLVE_TEST_KEY")
        assert "redirects are not followed" in message
        assert not other.requests


async def test_a_refused_key_names_the_variable_and_never_its_value(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.then(fails(401, "no key"))
    assert "the environment variable OPENAI_API_KEY is not set" in await refusal(server)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for status in (401, 403):
        server.then(fails(status, "wrong key: sk-secret"))
        message = await refusal(server)
        assert "OPENAI_API_KEY is wrong" in message
        assert "sk-secret" not in message
    assert len(server.requests) == 3


async def test_an_unknown_model_is_final(server: ChatServer) -> None:
    server.then(fails(404, "no such model"))
    assert "that the server has this model" in await refusal(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "refuses",
    [("response_format",), ("max_tokens", "temperature"), ("temperature", "response_format")],
)
async def test_settings_that_a_server_refuses_are_omitted_for_good(
    refuses: tuple[str, ...],
) -> None:
    with serving(lambda messages: "well", refuses=refuses) as server:
        chat = Chat(model_at(server.base_url, tries=1))
        for _ in range(2):
            assert (await chat.ask(QUESTION)).text == "well"
        await chat.close()
    assert len(server.requests) == 2 + len(refuses)
    assert not any(name in server.requests[-1].body for name in refuses)
    assert ("max_completion_tokens" in server.requests[-1].body) == ("max_tokens" in refuses)


async def test_a_request_that_is_wrong_otherwise_is_final_and_changes_nothing(
    server: ChatServer,
) -> None:
    chat = Chat(model_at(server.base_url))
    server.then(fails(400, "the prompt is too long"), fails(400, "the prompt is too long"))
    with pytest.raises(EndpointError, match="the prompt is too long"):
        await chat.ask(QUESTION)
    await chat.ask(QUESTION)
    await chat.close()
    assert ["response_format" in request.body for request in server.requests] == [True, False, True]


def test_no_prompt_has_more_tokens_than_are_allowed_for() -> None:
    assert most_prompt_tokens((PromptMessage(role="user", content="é"),)) >= 2 + 10


def test_cost_is_that_of_the_configured_prices() -> None:
    model = model_at(
        "http://x/v1", usd_per_million_prompt_tokens=2.0, usd_per_million_answer_tokens=10.0
    )
    assert cost_usd(model, 1_000, 500) == pytest.approx(0.007)
