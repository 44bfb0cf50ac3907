"""One question to a server, by the client that a run uses."""

import pytest

from coevolve.llm.client import Chat, PromptMessage, Said
from protocols.errors import EndpointError
from tests.synthesizing import model_at

QUESTION = (
    PromptMessage(role="system", content="Be brief."),
    PromptMessage(role="user", content="Well?"),
)


async def ask(base_url: str, **changes: object) -> Said:
    chat = Chat(model_at(base_url, **changes))
    try:
        return await chat.ask(QUESTION)
    finally:
        await chat.close()


async def refusal(base_url: str, **changes: object) -> str:
    with pytest.raises(EndpointError) as caught:
        await ask(base_url, **changes)
    return str(caught.value)
