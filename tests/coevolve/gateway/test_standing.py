"""A standing session answers conversations that begin anywhere, and keeps nothing of them."""

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from coevolve.base.loopback import listener
from coevolve.gateway.gateway import Gateway
from tests.gateways import TEMPLATE, SplittingGenerator, sampling_of, user

FEW = [user("a"), {"role": "assistant", "content": "nobody sampled this"}, user("b")]


async def test_conversations_begin_anywhere_and_none_is_another_ones() -> None:
    engine = SplittingGenerator(TEMPLATE, ["one", "two", "three", "four"])
    with listener(0) as listening:
        async with Gateway(listening).standing(sampling_of(engine)) as (url, key):
            assert url == f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            async with AsyncOpenAI(base_url=url, api_key=key) as client:

                async def said(messages: list[Any]) -> str | None:
                    answer = await client.chat.completions.create(model="m", messages=messages)
                    return answer.choices[0].message.content

                assert await said(FEW) == "one"
                assert await said(FEW) == "two"
                together = await asyncio.gather(said([user("c")]), said([*FEW, *FEW]))
                assert sorted(map(str, together)) == ["four", "three"]
            for other in ("", "x", key[:-1]):
                async with AsyncOpenAI(base_url=url, api_key=other or "none") as stranger:
                    with pytest.raises(openai.AuthenticationError, match="coevolve serve"):
                        await stranger.models.list()
    first, second = engine.requests[:2]
    assert first.prompt_ids == second.prompt_ids == TEMPLATE.opening(FEW)
    assert first.seed != second.seed
    names = [each.conversation_id for each in engine.requests]
    assert len(set(names)) == 4
    assert sorted(engine.released) == sorted(names)


async def test_a_key_ends_with_its_server() -> None:
    engine = SplittingGenerator(TEMPLATE, ["one"])
    gateway = Gateway()
    async with gateway.standing(sampling_of(engine)) as (url, key):
        pass
    async with gateway.standing(sampling_of(engine)) as (again, other):
        assert (again, other != key) == (url, True)
        async with AsyncOpenAI(base_url=url, api_key=key) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(model="m", messages=[user("a")])
    assert not engine.requests
