"""How a vLLM engine serves requests, independent of its weights."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from protocols.errors import ContractError, GeneratorError
from protocols.generation import GenerationRequest
from tests.serving import ask, new_model
from tests.vllm_engines import open_engine

if TYPE_CHECKING:
    from coevolve.engine.vllm.generator import VllmGenerator

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator["VllmGenerator"]:
    folder = tmp_path_factory.mktemp("qwen3")
    new_model("qwen3").save_pretrained(folder)
    generator = open_engine(folder, folder)
    yield generator
    asyncio.run(generator.close())


@pytest.mark.parametrize("prompt_tokens", [4, 200])
async def test_a_request_does_not_depend_on_its_company(
    served: "VllmGenerator", prompt_tokens: int
):
    # The long prompts exceed one step, so some are fed in pieces.
    requests = [
        ask(f"talk {n}", [n + 1, *[2, 3, 5, 8] * (prompt_tokens // 4)], max_tokens=20, seed=n)
        for n in range(12)
    ]
    together = await asyncio.gather(*map(served.generate, requests))
    alone = [await served.generate(request) for request in requests]
    backwards = await asyncio.gather(*map(served.generate, reversed(requests)))
    assert [said.token_ids for said in together] == [said.token_ids for said in alone]
    assert [said.token_ids for said in reversed(backwards)] == [said.token_ids for said in alone]
    other = await served.generate(ask("talk 0", requests[0].prompt_ids, max_tokens=20, seed=99))
    assert other.token_ids != together[0].token_ids


async def test_a_stop_token_ends_the_answer_and_is_part_of_it(served: "VllmGenerator"):
    free = await served.generate(ask("free", [1, 2, 3], max_tokens=20, temperature=0.0))
    assert (len(free.token_ids), free.stopped) == (20, False)
    stop = free.token_ids[4]
    first = free.token_ids.index(stop)
    bound = await served.generate(
        ask("bound", [1, 2, 3], max_tokens=20, temperature=0.0, stop_ids=(stop,))
    )
    assert bound.token_ids == free.token_ids[: first + 1]
    assert len(bound.logprobs) == len(bound.versions) == first + 1
    assert bound.stopped


async def test_more_conversations_than_places_take_turns(served: "VllmGenerator"):
    requests = [ask(f"talk {n}", [n], max_tokens=20) for n in range(50)]
    said = await asyncio.gather(*map(served.generate, requests))
    assert {len(each.token_ids) for each in said} == {20}


async def test_requests_in_flight_wait_while_the_engine_sleeps_and_then_go_on(
    served: "VllmGenerator",
):
    requests = [ask(f"talk {n}", [n + 1, 2, 3], max_tokens=200, seed=n) for n in range(4)]
    undisturbed = await asyncio.gather(*map(served.generate, requests))
    answers = [asyncio.create_task(served.generate(request)) for request in requests]
    await asyncio.sleep(0.02)
    await served.sleep()
    late = asyncio.create_task(served.generate(ask("late", [1], max_tokens=4)))
    done, waiting = await asyncio.wait([*answers, late], timeout=0.5)
    assert not done
    assert len(waiting) == 5
    await served.wake()
    again = await asyncio.gather(*answers)
    assert [said.token_ids for said in again] == [said.token_ids for said in undisturbed]
    assert len((await late).token_ids) == 4


async def test_a_second_request_of_a_conversation_in_flight_is_refused(served: "VllmGenerator"):
    first = asyncio.create_task(served.generate(ask("talk", [1, 2], max_tokens=100)))
    await asyncio.sleep(0)
    with pytest.raises(GeneratorError, match="'talk' already has a request in flight"):
        await served.generate(ask("talk", [1, 2, 3]))
    assert len((await first).token_ids) == 100


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ask("talk", [1] * 250), r"250 \+ 8 tokens, the maximum is 256"),
        (ask("talk", []), r"0 \+ 8 tokens"),
        (ask("talk", [1, 5000]), "tokens from 0 to 199, found 1 to 5000"),
        (ask("talk", [1], temperature=0.005), "temperature 0 or at least 0.01, .* found 0.005"),
    ],
)
async def test_invalid_requests_are_refused(
    served: "VllmGenerator", request_: GenerationRequest, words: str
):
    with pytest.raises((ContractError, GeneratorError), match=words):
        await served.generate(request_)
    assert len((await served.generate(ask("talk", [1]))).token_ids) == 8


async def test_a_full_conversation_is_served_to_its_last_token(served: "VllmGenerator"):
    said = await served.generate(ask("talk", [1] * 200, max_tokens=56))
    assert len(said.token_ids) == 56


async def test_a_cancelled_request_is_given_up(served: "VllmGenerator"):
    flight = asyncio.create_task(served.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0.05)
    flight.cancel()
    await asyncio.wait([flight])
    said = await served.generate(ask("talk", [1, 2]))
    assert len(said.token_ids) == 8


async def test_releasing_a_conversation_in_flight_ends_its_request(served: "VllmGenerator"):
    flight = asyncio.create_task(served.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0.05)
    await served.release("talk")
    await served.release("nobody")
    with pytest.raises(GeneratorError, match="'talk' was released"):
        await flight


async def test_an_idle_engine_spends_no_cpu_time(served: "VllmGenerator"):
    await served.generate(ask("talk", [1], max_tokens=50))
    await served.generate(ask("talk", [1]))  # by now the first is accounted for
    await asyncio.sleep(0.05)
    spent = served.cpu_s()
    assert spent > 0
    await asyncio.sleep(0.05)
    assert served.cpu_s() == spent


def test_the_cache_takes_no_more_memory_than_was_said(served: "VllmGenerator"):
    cache = served._core._llm.vllm_config.cache_config
    assert cache.num_gpu_blocks is not None
    assert cache.block_size == 32
    # Keys and values of 2 layers, 1 head of 32, in float32.
    assert 0 < cache.num_gpu_blocks * cache.block_size * 2 * 2 * 32 * 4 <= 16 << 20


def test_a_cache_that_cannot_hold_one_conversation_is_refused(tmp_path: Path):
    new_model("qwen3").save_pretrained(tmp_path)
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.core import Core
    from protocols.config import VllmEngine

    with pytest.raises(GeneratorError, match="cannot serve it with 90000 tokens"):
        Core(tmp_path, VllmEngine(kv_cache_mb=1), Limits(concurrent=1, length=90_000))


async def test_closing_ends_requests_in_flight(tmp_path: Path):
    new_model("qwen3").save_pretrained(tmp_path)
    generator = open_engine(tmp_path, tmp_path, self_test=False)
    flight = asyncio.create_task(generator.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0.05)
    await generator.close()
    with pytest.raises(GeneratorError, match="the generator was closed"):
        await flight
    await generator.release("talk")


async def test_an_engine_that_breaks_in_a_step_fails_everyone_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    new_model("qwen3").save_pretrained(tmp_path)
    generator = open_engine(tmp_path, tmp_path, self_test=False)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    monkeypatch.setattr(generator._core._llm, "step", lambda: 1 / 0)
    results = await asyncio.gather(
        *(generator.generate(ask(f"talk {n}", [1, 2])) for n in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [GeneratorError] * 3
    assert "ZeroDivisionError" in str(results[0])
    with pytest.raises(GeneratorError, match="the rollout engine failed"):
        await generator.generate(ask("late", [1, 2]))
    await generator.close()
