"""A vLLM engine computes the same as transformers, with the weights that were loaded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.engine.generator import TransformersGenerator
from protocols import columns
from protocols.errors import GeneratorError
from tests import exposure
from tests.serving import (
    MAX_LENGTH,
    SHAPE,
    VOCABULARY,
    adapted,
    ask,
    converse,
    difference,
    new_model,
    published,
)
from tests.vllm_engines import CONCURRENT, open_engine

if TYPE_CHECKING:
    from coevolve.engine.vllm.generator import VllmGenerator

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

FLOAT32 = 1e-4
BFLOAT16 = 0.3
"""Nats, for single tokens of a random model with large weights. 0.02 on average: `MEAN`."""

MEAN = 0.05

GPT_NEO: dict[str, Any] = {
    "hidden_size": 64,
    "num_layers": 2,
    "num_heads": 2,
    "vocab_size": VOCABULARY,
    "attention_types": [[["global", "local"], 1]],
}


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen3")
    new_model("qwen3").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def served(qwen3: Path, run_dir: Path) -> Iterator["VllmGenerator"]:
    generator = open_engine(qwen3, run_dir)
    yield generator
    asyncio.run(generator.close())


@pytest.fixture
async def fresh(served: "VllmGenerator", run_dir: Path) -> "VllmGenerator":
    """Return the engine, serving version 1, the model of the folder."""
    await served.load(published(run_dir, 1, new_model("qwen3")))
    return served


async def test_an_engine_listens_nowhere_that_others_can_reach(fresh: "VllmGenerator"):
    said = await fresh.generate(ask("alive", [1, 2, 3], max_tokens=2, temperature=0.0))
    assert said.token_ids
    assert exposure.reachable_sockets([psutil.Process()]) == []


def plain(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


async def test_both_engines_say_the_same_greedily(fresh: "VllmGenerator", qwen3: Path):
    other = TransformersGenerator(qwen3, qwen3, max_concurrent=CONCURRENT, max_length=MAX_LENGTH)
    rng = np.random.default_rng(0)
    greedy: dict[str, Any] = {"max_tokens": 30, "temperature": 0.0}
    requests = [
        ask(f"talk {n}", rng.integers(VOCABULARY, size=length).tolist(), **greedy)
        for n, length in enumerate(range(5, 80, 9))
    ]
    ours = await asyncio.gather(*map(fresh.generate, requests))
    theirs = await asyncio.gather(*map(other.generate, requests))
    await other.close()
    assert [said.token_ids for said in ours] == [said.token_ids for said in theirs]
    for mine, his in zip(ours, theirs, strict=True):
        assert np.allclose(mine.logprobs, his.logprobs, atol=FLOAT32)


async def test_conversations_of_any_temperature_match_a_plain_forward(
    fresh: "VllmGenerator", qwen3: Path
):
    talks = await asyncio.gather(*(converse(fresh, f"talk {n}", 3) for n in range(20)))
    for request, said in (each for talk in talks for each in talk):
        assert difference(plain(qwen3), request, said).max() < FLOAT32


async def test_bfloat16_stays_near_a_plain_forward_in_float32(qwen3: Path, run_dir: Path):
    generator = open_engine(qwen3, run_dir, dtype="bfloat16")
    other = new_model("qwen3", seed=4)
    found: list[torch.Tensor] = []
    for model, version in ((plain(qwen3), None), (other, published(run_dir, 40, other))):
        if version is not None:
            await generator.load(version)
        talks = await asyncio.gather(*(converse(generator, f"talk {n}", 3) for n in range(12)))
        found += [difference(model, *each) for talk in talks for each in talk]
    await generator.close()
    assert torch.cat(found).max() < BFLOAT16
    assert torch.cat(found).mean() < MEAN


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
async def test_new_weights_are_served_from_the_next_token_on(
    architecture: str, served: "VllmGenerator", tmp_path: Path, run_dir: Path
):
    generator = served
    if architecture == "llama":
        new_model("llama").save_pretrained(tmp_path)
        generator = open_engine(tmp_path, run_dir)
    model = new_model(architecture, seed=1)
    prompt = range(100)
    await generator.generate(ask("before", prompt))  # so that the old weights have it cached
    proof = await generator.load(published(run_dir, 7, model))
    request = ask("after", prompt, temperature=0.0)
    said = await generator.generate(request)
    if generator is not served:
        await generator.close()
    assert set(said.versions) == {7}
    assert difference(model, request, said).max() < FLOAT32
    assert proof.version == 7
    assert proof.wall_s > 0


async def test_what_is_served_is_measured_through_the_weights_that_sample(
    served: "VllmGenerator", run_dir: Path
):
    for number, seed in ((2, 5), (3, 6)):
        version = published(run_dir, number, new_model("qwen3", seed=seed))
        proof = await served.load(version)
        assert proof.digest == version.digest
        expected = columns.from_float32(version.probe.logprobs)
        assert np.allclose(columns.from_float32(proof.logprobs), expected, atol=FLOAT32)


async def test_a_request_in_flight_goes_on_under_the_new_weights(
    fresh: "VllmGenerator", run_dir: Path
):
    model = new_model("qwen3", seed=1)
    version = published(run_dir, 9, model)
    request = ask("talk", [1, 2, 3], max_tokens=250)
    flight = asyncio.create_task(fresh.generate(request))
    others = [
        asyncio.create_task(fresh.generate(ask(f"other {n}", [n, 5], max_tokens=250)))
        for n in range(6)
    ]
    await asyncio.sleep(0.05)
    proof = await fresh.load(version)
    said = await flight
    assert len(said.token_ids) == 250
    assert list(said.versions) == sorted(said.versions)
    assert set(said.versions) == {1, 9}
    assert proof.pause_s > 0
    # Keys and values are computed again, so no later token depends on the old weights.
    new = np.array(said.versions) == 9
    assert difference(model, request, said)[new].max() < FLOAT32
    assert {len((await each).token_ids) for each in others} == {250}


async def test_weights_that_differ_from_their_record_are_refused_and_the_old_ones_stay(
    fresh: "VllmGenerator", run_dir: Path
):
    version = published(run_dir, 11, new_model("qwen3", seed=1))
    before = await fresh.generate(ask("before", [1, 2, 3], temperature=0.0))
    weights = run_dir / version.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(GeneratorError, match=r"is not as recorded: SHA-256 .* keeps"):
        await fresh.load(version)
    weights.unlink()
    with pytest.raises(GeneratorError, match="cannot read the weights of version 11"):
        await fresh.load(version)
    assert await fresh.generate(ask("after", [1, 2, 3], temperature=0.0)) == before


async def test_weights_of_another_model_are_refused(served: "VllmGenerator", run_dir: Path):
    version = published(run_dir, 12, new_model("llama"))
    with pytest.raises(
        GeneratorError, match=r"needs the tensors of the run's initial model.*: lm_head\.weight"
    ):
        await served.load(version)


async def test_an_adapter_is_served_merged(served: "VllmGenerator", qwen3: Path, run_dir: Path):
    generator = open_engine(qwen3, run_dir, self_test=False)
    adapter = adapted(qwen3)
    proof = await generator.load(published(run_dir, 13, adapter, "lora"))
    request = ask("talk", [1, 2, 3], temperature=0.0, max_tokens=20)
    said = await generator.generate(request)
    await generator.close()
    assert set(said.versions) == {13}
    assert difference(adapter, request, said).max() < FLOAT32
    assert len(columns.from_float32(proof.logprobs)) == 31


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (
            "llama",
            SHAPE | {"head_dim": 24},
            "fails at its first tokens, .*head_dim=24.*; choose another dtype, or rollout.engine",
        ),
        (
            "gpt_neo",
            GPT_NEO,
            "vLLM cannot serve it .*GPTNeoForCausalLM.* not supported.*engine.kind transformers$",
        ),
    ],
    ids=["width of heads", "architecture"],
)
def test_a_model_that_vllm_cannot_compute_is_refused(
    kind: str, settings: dict[str, Any], words: str, tmp_path: Path, run_dir: Path
):
    config = AutoConfig.for_model(kind, **settings)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(GeneratorError, match=words) as refusal:
        open_engine(tmp_path, run_dir)
    assert len(str(refusal.value)) < 1000


def test_a_model_whose_output_keeps_old_weights_is_not_served(
    qwen3: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    from coevolve.engine.vllm import repairs

    monkeypatch.setattr(repairs, "retie", lambda _: None)
    with pytest.raises(GeneratorError, match="other numbers than transformers, after new weights"):
        open_engine(qwen3, run_dir)
