"""The engine of transformers serves each family as the learner trains it."""

from pathlib import Path
from typing import Any

import pytest

from coevolve.engine.generator import TransformersGenerator
from protocols.learning import WeightsFormat
from tests.served.families import FAMILIES, WINDOW, write_family
from tests.served.trained import FLOAT32, apart, trained
from tests.serving import MAX_LENGTH


@pytest.mark.parametrize("family", FAMILIES)
async def test_samples_are_scored_by_the_learner_as_they_were_sampled(family: str, tmp_path: Path):
    base = tmp_path / "model"
    write_family(family, base)
    generator = TransformersGenerator(base, tmp_path, max_concurrent=4, max_length=MAX_LENGTH)
    formats: tuple[WeightsFormat, ...] = ("lora", "full")
    for number, train in enumerate(formats, 1):
        policy, version = trained(base, tmp_path, number, train)
        await generator.load(version)
        assert await apart(generator, policy) < FLOAT32
    await generator.close()


@pytest.mark.parametrize("family", ["gemma3_text", "mistral"])
async def test_a_sliding_window_is_seen_by_the_comparison(family: str, tmp_path: Path):
    base, other = tmp_path / "model", tmp_path / "other"
    write_family(family, base)
    write_family(family, other)
    config: Any = (other / "config.json").read_text()
    (other / "config.json").write_text(
        config.replace(f'"sliding_window": {WINDOW}', f'"sliding_window": {WINDOW // 2}')
    )
    generator = TransformersGenerator(other, tmp_path, max_concurrent=4, max_length=MAX_LENGTH)
    policy, version = trained(base, tmp_path, 1, "full")
    await generator.load(version)
    assert await apart(generator, policy) > 10 * FLOAT32
    await generator.close()
