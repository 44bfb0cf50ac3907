"""Whatever a server does, a call ends as an answer or as an EndpointError, in bounded time."""

import time

import pytest

from coevolve.environments.tools.synthesis.answers import UnusableAnswerError, read_reflection
from coevolve.llm.client import Chat, PromptMessage
from protocols.errors import EndpointError
from tests.misbehaving import BEHAVIOURS, misbehaving
from tests.synthesizing import model_at

QUESTION = (PromptMessage(role="user", content="Well?"),)
TIMEOUT_S = 0.5
SLACK_S = 2.0


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_no_behaviour_of_a_server_gives_a_usable_answer_or_a_raw_error(name: str) -> None:
    with misbehaving([name]) as server:
        chat = Chat(model_at(server.base_url, timeout_s=TIMEOUT_S, tries=1))
        started = time.monotonic()
        with pytest.raises((EndpointError, UnusableAnswerError)) as caught:
            read_reflection((await chat.ask(QUESTION)).text)
        assert time.monotonic() - started < TIMEOUT_S + SLACK_S
        await chat.close()
    assert len(str(caught.value)) < 2_000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["300 MB", "300 MB of an error", "chunks for ever"])
async def test_an_answer_is_read_up_to_its_bound_and_no_further(name: str) -> None:
    with misbehaving([name]) as server:
        chat = Chat(model_at(server.base_url, timeout_s=60.0, tries=1))
        with pytest.raises(EndpointError, match=r"its answer is longer than \d+ bytes"):
            await chat.ask(QUESTION)
        await chat.close()
