import asyncio
import multiprocessing
from pathlib import Path

import pytest

from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.models.tiny_random.model import write_model
from protocols.config import PolicyConfig, RunConfig, VllmEngine
from tests.coevolve.delivery.experts import EXPERTS, prove_and_alarm

TEXTS = tuple(Bfcl(RunConfig(name="texts", environment={"use": "bfcl"})).texts())

SETTINGS = VllmEngine(kv_cache_mb=64, dtype="bfloat16")


async def serve(folder: Path) -> None:
    """Start an engine, which compares itself with transformers at start-up, and attack it."""
    from coevolve.engine.vllm import environment

    environment.set_variables(SETTINGS)
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    limits = Limits(concurrent=8, length=256)
    engine = VllmGenerator(folder, folder.parent, SETTINGS, limits)
    core = engine._core  # pyright: ignore[reportPrivateUsage]
    serve_weights = core.serve_weights
    await prove_and_alarm(
        folder,
        SETTINGS,
        engine,
        lambda change: setattr(
            core,
            "serve_weights",
            lambda weights, version: serve_weights(change(dict(weights)).items(), version),
        ),
    )
    await engine.close()


def serve_alone(folder: Path) -> None:
    asyncio.run(serve(folder))


@pytest.mark.vllm
@pytest.mark.timeout(300)
def test_a_mixture_of_experts_serves_the_weights_that_replaced_its_first(tmp_path: Path):
    folder = tmp_path / "model"
    write_model(
        RunConfig(name="experts", policy=PolicyConfig(model=EXPERTS, tiny_random=True)),
        folder,
        TEXTS,
    )
    # vLLM groups a process's ranks once, by its first model, and experts need a separate group.
    alone = multiprocessing.get_context("spawn").Process(target=serve_alone, args=(folder,))
    alone.start()
    try:
        alone.join(280)
        assert alone.exitcode == 0
    finally:
        alone.kill()
