"""Unmerged adapters in a vLLM engine: which request uses which adapter, and for how long."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from coevolve.models.scratch_folder import PREFIX
from coevolve.models.weight_files import version_digest
from protocols import columns
from protocols.errors import GeneratorError
from tests.serving import adapted, ask, difference, new_model, published
from tests.vllm_engines import open_engine

if TYPE_CHECKING:
    from coevolve.engine.vllm.generator import VllmGenerator

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

FLOAT32 = 1e-4
PLACES = 3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen3")
    new_model("qwen3").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def served(base: Path, run_dir: Path) -> Iterator["VllmGenerator"]:
    generator = open_engine(base, run_dir, adapters=PLACES, deliver="adapter")
    yield generator
    asyncio.run(generator.close())


async def test_requests_with_several_adapters_and_without_any_share_batches(
    base: Path, run_dir: Path
):
    generator = open_engine(base, run_dir, adapters=2, deliver="adapter", self_test=False)
    models: list[Any] = [AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)]
    requests = [
        ask(f"{model} {n}", range(n, 20 + 3 * n), max_tokens=60, temperature=0.0)
        for model in range(3)
        for n in range(4)
    ]
    flights = [asyncio.create_task(generator.generate(each)) for each in requests[:4]]
    for number in (1, 2):
        models.append(adapted(base, seed=number))
        await generator.load(published(run_dir, number, models[-1], "lora"))
        begun = requests[4 * number : 4 * number + 4]
        flights += [asyncio.create_task(generator.generate(each)) for each in begun]
        await asyncio.sleep(0)
    said = await asyncio.gather(*flights)
    await generator.close()
    for number, (request, each) in enumerate(zip(requests, said, strict=True)):
        assert set(each.versions) == {number // 4}
        assert difference(models[number // 4], request, each).max() < FLOAT32


async def test_more_versions_than_places_are_served_one_after_the_other(
    served: "VllmGenerator", base: Path, run_dir: Path
):
    flights: list[Any] = []
    for number in range(10, 16):
        model = adapted(base, seed=number)
        version = published(run_dir, number, model, "lora")
        proof = await asyncio.wait_for(served.load(version), 60)
        expected = columns.from_float32(version.probe.logprobs)
        assert np.allclose(columns.from_float32(proof.logprobs), expected, atol=FLOAT32)
        request = ask("talk " + str(number), range(40), max_tokens=200, temperature=0.0)
        flights.append((model, number, request, asyncio.create_task(served.generate(request))))
        await asyncio.sleep(0)
    for model, number, request, flight in flights:
        said = await flight
        assert set(said.versions) == {number}
        assert difference(model, request, said).max() < FLOAT32
    assert len(served._core._llm.list_loras()) == 1


async def test_the_same_adapter_gives_the_same_whenever_it_is_served(
    served: "VllmGenerator", base: Path, run_dir: Path
):
    versions = [published(run_dir, n, adapted(base, seed=n), "lora") for n in (20, 21)]
    said: list[Any] = []
    for version in (*versions, versions[0]):
        await served.load(version)
        said.append(await served.generate(ask("talk", range(64), max_tokens=20, temperature=0.0)))
    assert said[0] == said[2]
    assert said[0].token_ids != said[1].token_ids


async def test_an_adapter_that_cannot_be_read_is_refused_and_the_engine_lives(
    served: "VllmGenerator", base: Path, run_dir: Path
):
    good = published(run_dir, 30, adapted(base, seed=30), "lora")
    bad = published(run_dir, 31, adapted(base, seed=31), "lora")
    gone = published(run_dir, 32, adapted(base, seed=32), "lora")
    (run_dir / bad.path / "adapter_config.json").write_text('{"r": 512, "lora_alpha": 6}')
    bad = msgspec.structs.replace(bad, digest=version_digest(run_dir / bad.path, "lora"))
    shutil.rmtree(run_dir / gone.path)
    await served.load(good)
    before = await served.generate(ask("before", [1, 2, 3], temperature=0.0))
    with pytest.raises(GeneratorError, match="cannot serve the adapter of version 31"):
        await served.load(bad)
    with pytest.raises(GeneratorError, match="cannot read the weights of version 32"):
        await served.load(gone)
    assert await served.generate(ask("after", [1, 2, 3], temperature=0.0)) == before


async def test_an_adapter_whose_files_are_gone_goes_on_being_served(
    served: "VllmGenerator", base: Path, run_dir: Path
):
    version = published(run_dir, 40, adapted(base, seed=40), "lora")
    await served.load(version)
    before = await served.generate(ask("before", range(9), temperature=0.0))
    shutil.rmtree(run_dir / version.path)
    assert await served.generate(ask("after", range(9), temperature=0.0)) == before


async def test_full_weights_are_refused_where_adapters_are_served(
    served: "VllmGenerator", run_dir: Path
):
    with pytest.raises(GeneratorError, match="needs adapters, found full weights; choose deliver"):
        await served.load(published(run_dir, 50, new_model("qwen3")))


SERVING = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.serving import adapted, published
from tests.vllm_engines import open_engine
base, run_dir = map(Path, sys.argv[1:])
engine = open_engine(base, run_dir, adapters=2, deliver="adapter", self_test=False)
asyncio.run(engine.load(published(run_dir, 1, adapted(base), "lora")))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_engine_removes_what_a_killed_one_left(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "tmp"
    place.mkdir()
    subprocess.run(
        [sys.executable, "-c", SERVING, str(base), str(tmp_path)],
        env=os.environ | {"TMPDIR": str(place)},
        check=False,
        timeout=200,
    )
    (left,) = place.glob(f"{PREFIX}*")
    assert list(left.glob("*/adapter_model.safetensors"))
    os.utime(left, (0, 0))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    open_engine(base, tmp_path, adapters=2, deliver="adapter", self_test=False)
    assert not left.exists()
    assert len(list(place.glob(f"{PREFIX}*"))) == 1


def test_an_engine_that_mixes_adapters_up_does_not_serve(
    base: Path, run_dir: Path, served: "VllmGenerator", monkeypatch: pytest.MonkeyPatch
):
    from vllm.lora.ops import torch_ops
    from vllm.lora.punica_wrapper import punica_cpu

    for name in ("bgmv_expand_slice", "bgmv_shrink", "sgmv_expand_slice", "sgmv_shrink"):
        monkeypatch.setattr(punica_cpu, name, getattr(torch_ops, name))
    with pytest.raises(GeneratorError, match="without an adapter, beside others with one"):
        open_engine(base, run_dir, adapters=PLACES, deliver="adapter")
