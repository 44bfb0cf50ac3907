import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from coevolve.engine import engine
from coevolve.engine.fitting import refuse_grammar
from coevolve.engine.generator import TransformersGenerator
from coevolve.models.weight_files import version_digest
from protocols.errors import ContractError, GeneratorError
from protocols.generation import END, Generation, GenerationRequest, Grammar
from protocols.interfaces import Generator
from tests.serving import published

VOCABULARY = 200
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}
MAX_LENGTH = 256
Spoken = tuple[GenerationRequest, Generation]


def new_model(architecture: str, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    if architecture == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=12, tie_word_embeddings=True))
    return LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=False))


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    new_model(request.param).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    new_model("qwen3").save_pretrained(folder)
    return folder


@pytest.fixture
async def served(qwen3: Path, tmp_path: Path) -> AsyncIterator[TransformersGenerator]:
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=8, max_length=MAX_LENGTH)
    yield generator
    await generator.close()


def ask(conversation: str, prompt: Sequence[int], **settings: Any) -> GenerationRequest:
    plain: dict[str, Any] = {"max_tokens": 8, "stop_ids": (), "temperature": 1.0, "seed": 0}
    return GenerationRequest(
        conversation_id=conversation, prompt_ids=tuple(prompt), **(plain | settings)
    )


@torch.no_grad()
def reference_logprobs(model: Any, request: GenerationRequest, said: Generation) -> torch.Tensor:
    """Return a plain forward over the whole conversation: (sampled tokens, vocabulary)."""
    ids = torch.tensor([request.prompt_ids + said.token_ids])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1]
    return torch.log_softmax(logits / (request.temperature or 1.0), dim=-1)


def assert_like_a_plain_forward(folder: Path, spoken: Sequence[Spoken]) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for request, said in spoken:
        expected = reference_logprobs(model, request, said)
        tokens = torch.tensor(said.token_ids)
        chosen = expected.gather(1, tokens[:, None])[:, 0]
        assert torch.allclose(torch.tensor(said.logprobs), chosen, atol=1e-4)
        if request.temperature == 0:
            assert said.token_ids == tuple(expected.argmax(-1).tolist())


async def converse(
    generator: Generator, name: str, turns: int, *, longest: int = 40
) -> list[Spoken]:
    """Hold a conversation with random tokens in between, and keep it cached."""
    rng = np.random.default_rng(list(name.encode()))
    ids = rng.integers(VOCABULARY, size=rng.integers(1, longest)).tolist()
    spoken: list[Spoken] = []
    for turn in range(turns):
        request = ask(
            name,
            ids,
            max_tokens=int(rng.integers(1, 12)),
            stop_ids=(3, 5, 7),
            temperature=float(rng.choice([0.0, 0.7, 1.0])),
            seed=turn,
        )
        said = await generator.generate(request)
        spoken.append((request, said))
        ids = [*ids, *said.token_ids, *rng.integers(VOCABULARY, size=rng.integers(0, 8)).tolist()]
    return spoken


@pytest.mark.parametrize("concurrent", [1, 5, 64])
async def test_conversations_of_any_length_match_a_plain_forward(
    folder: Path, concurrent: int
) -> None:
    generator = TransformersGenerator(
        folder, folder, max_concurrent=concurrent, max_length=MAX_LENGTH
    )
    talks = await asyncio.gather(*(converse(generator, f"talk {n}", 3) for n in range(20)))
    await generator.close()
    assert_like_a_plain_forward(folder, [each for talk in talks for each in talk])


@pytest.mark.parametrize("prefill_tokens", [2, 10_000])
async def test_new_tokens_fed_at_once_or_one_by_one_make_no_difference(
    folder: Path, prefill_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PREFILL_TOKENS", prefill_tokens)
    monkeypatch.setattr(engine, "CHUNK_TOKENS", 7)
    generator = TransformersGenerator(folder, folder, max_concurrent=6, max_length=MAX_LENGTH)
    talks = await asyncio.gather(*(converse(generator, f"talk {n}", 3) for n in range(10)))
    await generator.close()
    assert_like_a_plain_forward(folder, [each for talk in talks for each in talk])


async def test_slots_that_moved_keep_their_conversations(qwen3: Path, tmp_path: Path) -> None:
    # Long answers beside short ones leave holes; then each conversation continues.
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=32, max_length=MAX_LENGTH)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(VOCABULARY, size=20).tolist() for _ in range(32)]
    spoken: list[Spoken] = []

    async def talk(number: int) -> None:
        ids = prompts[number]
        for turn in range(3):
            tokens = 40 if (number + turn) % 4 == 0 else 2
            request = ask(f"talk {number}", ids, max_tokens=tokens, seed=number)
            said = await generator.generate(request)
            spoken.append((request, said))
            ids = [*ids, *said.token_ids, 9]

    await asyncio.gather(*map(talk, range(32)))
    await generator.close()
    assert_like_a_plain_forward(qwen3, spoken)


async def test_a_conversations_second_request_feeds_only_what_is_new(
    served: TransformersGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []
    forward = Qwen3ForCausalLM.forward

    def counting(self: Any, **inputs: Any) -> Any:
        fed.append(inputs["input_ids"].numel())
        return forward(self, **inputs)

    monkeypatch.setattr(Qwen3ForCausalLM, "forward", counting)
    first = await served.generate(ask("talk", range(100), max_tokens=2))
    assert sum(fed) == 100 + 1  # the last token that was said is not fed yet
    fed.clear()
    await served.generate(ask("talk", [*range(100), *first.token_ids, 5], max_tokens=1))
    assert sum(fed) == 2


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of tokens of each forward."""
    fed: list[int] = []
    forward = Qwen3ForCausalLM.forward

    def counted(self: Any, **inputs: Any) -> Any:
        fed.append(inputs["input_ids"].numel())
        return forward(self, **inputs)

    monkeypatch.setattr(Qwen3ForCausalLM, "forward", counted)
    return fed


async def test_attempts_at_once_feed_the_beginning_of_their_prompts_once(
    served: TransformersGenerator, qwen3: Path, monkeypatch: pytest.MonkeyPatch
):
    fed = counting(monkeypatch)
    prompts = [[*range(100), *([number] * number)] for number in range(1, 5)]
    requests = [ask(f"talk {n}", prompt, max_tokens=1) for n, prompt in enumerate(prompts)]
    said = await asyncio.gather(*map(served.generate, requests))
    assert 100 <= sum(fed) < 140
    monkeypatch.undo()
    assert_like_a_plain_forward(qwen3, list(zip(requests, said, strict=True)))


async def test_a_beginning_is_shared_after_its_conversation_has_ended(
    served: TransformersGenerator, qwen3: Path, monkeypatch: pytest.MonkeyPatch
):
    fed = counting(monkeypatch)
    await served.generate(ask("first", range(100), max_tokens=5))
    await served.release("first")
    fed.clear()
    request = ask("second", [*range(95), 3, 4], max_tokens=3, temperature=0.0)
    said = await served.generate(request)
    assert sum(fed) == 2 + 2
    monkeypatch.undo()
    assert_like_a_plain_forward(qwen3, [(request, said)])


async def test_no_beginning_is_shared_from_older_weights(
    qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    version = published(tmp_path, 1, new_model("qwen3", seed=1))
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=4, max_length=MAX_LENGTH)
    await generator.generate(ask("first", range(100), max_tokens=5))
    await generator.release("first")
    await generator.generate(ask("held", range(100), max_tokens=5))
    await generator.load(version)
    fed = counting(monkeypatch)
    said = await generator.generate(ask("second", range(100), max_tokens=2))
    await generator.close()
    assert sum(fed) == 100 + 1
    assert not said.cache_versions


async def test_a_prompt_that_departs_from_the_cache_is_fed_from_there(
    served: TransformersGenerator, qwen3: Path
) -> None:
    spoken: list[Spoken] = []
    for prompt in (range(50), [*range(25), *range(60, 90)], range(10), range(10), [77]):
        request = ask("talk", prompt, temperature=0.0)
        spoken.append((request, await served.generate(request)))
    assert_like_a_plain_forward(qwen3, spoken)


async def test_a_request_does_not_depend_on_its_company(
    qwen3: Path, tmp_path: Path, served: TransformersGenerator
) -> None:
    requests = [ask(f"talk {n}", [n + 1, 2, 3], max_tokens=20, seed=n) for n in range(8)]
    together = await asyncio.gather(*map(served.generate, requests))
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=1, max_length=MAX_LENGTH)
    alone = [await generator.generate(request) for request in requests]
    await generator.close()
    assert [said.token_ids for said in together] == [said.token_ids for said in alone]
    other = await served.generate(ask("talk 0", [1, 2, 3], max_tokens=20, seed=99))
    assert other.token_ids != together[0].token_ids


async def test_a_stop_token_ends_the_answer_and_is_part_of_it(
    served: TransformersGenerator,
) -> None:
    free = await served.generate(ask("free", [1, 2, 3], max_tokens=20, temperature=0.0))
    assert (len(free.token_ids), free.stopped) == (20, False)
    stop = free.token_ids[4]
    first = free.token_ids.index(stop)
    bound = await served.generate(
        ask("bound", [1, 2, 3], max_tokens=20, temperature=0.0, stop_ids=(stop,))
    )
    assert bound.token_ids == free.token_ids[: first + 1]
    assert bound.stopped


async def test_more_conversations_than_slots_take_turns(qwen3: Path, tmp_path: Path) -> None:
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=2, max_length=MAX_LENGTH)
    talks = await asyncio.gather(*(converse(generator, f"talk {n}", 4) for n in range(9)))
    await generator.close()
    assert_like_a_plain_forward(qwen3, [each for talk in talks for each in talk])


async def test_a_second_request_of_a_conversation_in_flight_is_refused(
    served: TransformersGenerator,
) -> None:
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
        (ask("talk", [1], stop_ids=tuple(range(9))), "at most 8 stop tokens, got 9"),
    ],
)
async def test_invalid_requests_are_refused(
    served: TransformersGenerator, request_: GenerationRequest, words: str
) -> None:
    with pytest.raises((ContractError, GeneratorError), match=words):
        await served.generate(request_)


async def test_a_full_conversation_is_served_to_its_last_token(
    served: TransformersGenerator, qwen3: Path
) -> None:
    request = ask("talk", [1] * 200, max_tokens=56)
    said = await served.generate(request)
    assert len(said.token_ids) == 56
    assert_like_a_plain_forward(qwen3, [(request, said)])


async def test_new_weights_are_served_from_the_next_token_on(
    served: TransformersGenerator, tmp_path: Path
) -> None:
    version = published(tmp_path, 7, new_model("qwen3", seed=1))
    before = await served.generate(ask("before", [1, 2, 3]))
    await served.load(version)
    request = ask("after", [1, 2, 3], temperature=0.0)
    after = await served.generate(request)
    assert set(before.versions) == {0}
    assert set(after.versions) == {7}
    assert_like_a_plain_forward(tmp_path / version.path, [(request, after)])


async def test_a_request_in_flight_goes_on_under_the_new_weights(
    served: TransformersGenerator, tmp_path: Path
) -> None:
    version = published(tmp_path, 1, new_model("qwen3", seed=1))
    flight = asyncio.create_task(served.generate(ask("talk", [1, 2, 3], max_tokens=250)))
    await asyncio.sleep(0)
    await served.load(version)
    said = await flight
    assert len(said.token_ids) == 250
    assert list(said.versions) == sorted(said.versions)
    assert said.versions[-1] == 1


async def test_weights_that_differ_from_their_record_are_refused_and_the_old_ones_stay(
    served: TransformersGenerator, tmp_path: Path
) -> None:
    version = published(tmp_path, 1, new_model("qwen3", seed=1))
    before = await served.generate(ask("before", [1, 2, 3], temperature=0.0))
    weights = tmp_path / version.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(GeneratorError, match=r"is not as recorded: SHA-256 .* keeps"):
        await served.load(version)
    weights.unlink()
    with pytest.raises(GeneratorError, match="cannot read the weights of version 1"):
        await served.load(version)
    after = await served.generate(ask("after", [1, 2, 3], temperature=0.0))
    assert after == before


async def test_weights_of_another_model_are_refused(
    served: TransformersGenerator, tmp_path: Path
) -> None:
    version = published(tmp_path, 1, new_model("llama"))
    with pytest.raises(
        GeneratorError, match=r"needs the tensors of the run's initial model.*: lm_head\.weight"
    ):
        await served.load(version)


def adapted(base: Path, **settings: Any) -> PeftModel:
    torch.manual_seed(0)
    config = LoraConfig(r=4, lora_alpha=6, target_modules="all-linear", **settings)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    assert isinstance(model, PeftModel)
    return model


@pytest.mark.parametrize("rslora", [False, True])
async def test_an_adapter_is_served_merged(folder: Path, tmp_path: Path, rslora: bool) -> None:
    generator = TransformersGenerator(folder, tmp_path, max_concurrent=2, max_length=MAX_LENGTH)
    adapter = adapted(folder, use_rslora=rslora)
    architecture = "qwen3" if "qwen3" in folder.name else "llama"
    # Full weights in between: the adapter belongs to the run's initial weights.
    await generator.load(published(tmp_path, 1, new_model(architecture, seed=5)))
    await generator.load(published(tmp_path, 2, adapter, "lora"))
    request = ask("talk", [1, 2, 3], temperature=0.0, max_tokens=20)
    said = await generator.generate(request)
    await generator.close()
    merged: Any = adapter.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    assert set(said.versions) == {2}
    assert_like_a_plain_forward(tmp_path / "merged", [(request, said)])


async def test_an_adapter_that_is_more_than_low_rank_pairs_is_refused(
    served: TransformersGenerator, qwen3: Path, tmp_path: Path
) -> None:
    version = published(tmp_path, 1, adapted(qwen3), "lora")
    settings = tmp_path / version.path / "adapter_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"use_dora": True}))
    digest = version_digest(tmp_path / version.path, "lora")
    version = msgspec.structs.replace(version, digest=digest)
    with pytest.raises(GeneratorError, match="use_dora needs to be False here, found True"):
        await served.load(version)


async def test_a_broken_engine_fails_everyone_who_waits(
    qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=1, max_length=MAX_LENGTH)
    monkeypatch.setattr(Qwen3ForCausalLM, "forward", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    results = await asyncio.gather(
        *(generator.generate(ask(f"talk {n}", [1, 2])) for n in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [GeneratorError] * 3
    assert "ZeroDivisionError" in str(results[0])
    with pytest.raises(GeneratorError, match="the rollout engine failed"):
        await generator.generate(ask("late", [1, 2]))
    await generator.close()


async def test_closing_ends_requests_in_flight(qwen3: Path, tmp_path: Path) -> None:
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=2, max_length=MAX_LENGTH)
    flight = asyncio.create_task(generator.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0)
    await generator.close()
    with pytest.raises(GeneratorError, match="the generator was closed"):
        await flight
    await generator.release("talk")


async def test_a_cancelled_request_gives_its_slot_back(qwen3: Path, tmp_path: Path) -> None:
    generator = TransformersGenerator(qwen3, tmp_path, max_concurrent=1, max_length=MAX_LENGTH)
    flight = asyncio.create_task(generator.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0)
    flight.cancel()
    said = await asyncio.wait_for(generator.generate(ask("next", [1, 2])), timeout=10)
    assert len(said.token_ids) == 8
    await generator.close()


async def test_releasing_a_conversation_in_flight_ends_its_request(
    served: TransformersGenerator,
) -> None:
    flight = asyncio.create_task(served.generate(ask("talk", [1], max_tokens=250)))
    await asyncio.sleep(0)
    await served.release("talk")
    await served.release("nobody")
    with pytest.raises(GeneratorError, match="'talk' was released"):
        await flight


async def test_an_idle_engine_spends_no_cpu_time(served: TransformersGenerator) -> None:
    await served.generate(ask("talk", [1], max_tokens=50))
    await served.generate(ask("talk", [1]))  # by now the first is accounted for
    assert served.cpu_s() > 0
    await asyncio.sleep(0.05)
    spent = served.cpu_s()
    await asyncio.sleep(0.05)
    assert served.cpu_s() == spent


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"layer_types": ["full_attention", "chunked_attention"]},
            "full or sliding attention, found layers of chunked_attention, full_attention",
        ),
        ({"max_position_embeddings": 200}, r"supports 200; lower rollout\.max_tokens"),
    ],
)
async def test_a_model_that_cannot_see_a_whole_conversation_is_refused(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    config = Qwen3Config(**(SHAPE | settings), head_dim=12, use_sliding_window=True)
    Qwen3ForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(GeneratorError, match=words):
        TransformersGenerator(tmp_path, tmp_path, max_concurrent=1, max_length=MAX_LENGTH)


async def test_the_generator_satisfies_the_interface(served: TransformersGenerator) -> None:
    generator: Generator = served
    assert generator.cpu_s() >= 0


BRACKETS = Grammar(states=(((5, 1), (6, 2)), ((7, 0), (8, END)), ((9, 1),)))
"""5 is followed by 7 and the start, or by 8 and the end; 6 is followed by 9 first."""


def accepts(grammar: Grammar, token_ids: Sequence[int]) -> bool:
    state = 0
    for token in token_ids:
        following = dict(grammar.states[state]) if state != END else {}
        if token not in following:
            return False
        state = following[token]
    return True


async def test_samples_stay_within_their_grammar(served: TransformersGenerator):
    asked = [
        ask(f"c{n}", [1, 2, 3 + n], seed=n, stop_ids=(8,), grammar=BRACKETS, max_tokens=12)
        for n in range(24)
    ]
    said = await asyncio.gather(*map(served.generate, asked))
    assert all(accepts(BRACKETS, each.token_ids) for each in said)
    assert all(each.stopped == (each.token_ids[-1] == 8) for each in said)
    assert len({each.token_ids for each in said}) > 3


async def test_a_token_without_an_alternative_is_certain(served: TransformersGenerator):
    forced = Grammar(states=(((5, 1),), ((8, END),)))
    said = await served.generate(ask("c", [1, 2], stop_ids=(8,), grammar=forced))
    assert (said.token_ids, said.logprobs) == ((5, 8), (0.0, 0.0))


async def test_logprobs_are_those_among_the_allowed_tokens(
    qwen3: Path, served: TransformersGenerator
):
    request = ask("c", [1, 2, 3], stop_ids=(8,), grammar=BRACKETS, temperature=0.5, max_tokens=1)
    said = await served.generate(request)
    model = AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32)
    plain = reference_logprobs(model, request, said)[0, [5, 6]]
    expected = torch.log_softmax(plain, dim=-1)[[5, 6].index(said.token_ids[0])]
    assert said.logprobs[0] == pytest.approx(expected.item(), abs=1e-4)


async def test_requests_without_a_grammar_are_not_touched_by_others(
    served: TransformersGenerator,
):
    free = ask("free", [1, 2, 3], max_tokens=8)
    alone = await served.generate(free)
    await served.release("free")
    beside = ask("held", [1, 2, 4], stop_ids=(8,), grammar=BRACKETS, max_tokens=8)
    again, _ = await asyncio.gather(served.generate(free), served.generate(beside))
    assert again.token_ids == alone.token_ids
    assert again.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


@pytest.mark.parametrize(
    ("grammar", "stop_ids", "words"),
    [
        (BRACKETS, (7,), r"last tokens of its grammar among its stop tokens, and lacks \[8\]"),
        (Grammar(states=(((VOCABULARY, END),),)), (VOCABULARY,), "below 200"),
    ],
)
async def test_a_grammar_that_cannot_be_served_is_refused(
    served: TransformersGenerator, grammar: Grammar, stop_ids: tuple[int, ...], words: str
):
    with pytest.raises(GeneratorError, match=words):
        await served.generate(ask("c", [1], stop_ids=stop_ids, grammar=grammar))
    assert len((await served.generate(ask("c", [1], max_tokens=2))).token_ids) == 2


def test_a_grammar_that_gets_stuck_is_refused():
    with pytest.raises(ValueError, match="state 1 has none"):
        Grammar(states=(((5, 1),), ()))
    with pytest.raises(ValueError, match="got token 5 to state 2"):
        Grammar(states=(((5, 2),), ((5, END),)))


def test_vllm_refuses_a_grammar_in_words():
    with pytest.raises(GeneratorError, match=r"choose rollout\.engine\.kind: transformers"):
        refuse_grammar(ask("c", [1], stop_ids=(8,), grammar=BRACKETS))


async def test_tokens_over_keys_and_values_of_older_weights_carry_both_versions(
    served: TransformersGenerator, tmp_path: Path
) -> None:
    first = ask("talk", [1, 2, 3], max_tokens=5)
    said = await served.generate(first)
    assert (set(said.versions), said.cache_versions) == ({0}, ())
    await served.load(published(tmp_path, 1, new_model("qwen3", seed=1)))
    further = (*first.prompt_ids, *said.token_ids, 7)
    on = await served.generate(ask("talk", further, max_tokens=5))
    assert (set(on.versions), set(on.cache_versions)) == ({1}, {0})
    # Without the cache, all tokens have one version again.
    for talk, prompt in (("other", further), ("talk", (9, *further))):
        anew = await served.generate(ask(talk, prompt, max_tokens=5))
        assert (set(anew.versions), anew.cache_versions) == ({1}, ())
