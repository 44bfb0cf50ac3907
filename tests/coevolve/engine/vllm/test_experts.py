from pathlib import Path

import pytest

from coevolve.shrunk.model import write_model
from protocols.config import PolicyConfig, RunConfig, VllmEngine

EXPERTS = PolicyConfig(model="Qwen/Qwen3-30B-A3B-Instruct-2507", shrink=True)
SETTINGS = VllmEngine(kv_cache_mb=64)


@pytest.mark.vllm
@pytest.mark.timeout(300)
async def test_a_mixture_of_experts_serves_the_weights_that_replaced_its_first(tmp_path: Path):
    from coevolve.engine.vllm import environment

    environment.settle(SETTINGS)
    from coevolve.engine.vllm.core import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    folder = tmp_path / "model"
    write_model(RunConfig(name="experts", policy=EXPERTS), folder)
    # It replaces the weights by others and compares them with transformers before it serves.
    limits = Limits(concurrent=8, length=256)
    engine = VllmGenerator(folder, tmp_path, SETTINGS, limits)
    await engine.close()
