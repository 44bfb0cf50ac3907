import json
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.tools.filesystem.grammar import held_out_tasks
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT
from tests.bench.tiny_policy import CARD, Recipe, build, digest
from tests.bench.tiny_scores import policy_scores, synthesizer_score

SMALL = Recipe(
    steps=3,
    demonstrations=20,
    descriptions=20,
    demonstrations_per_step=4,
    descriptions_per_step=4,
    tokenizer_tasks=300,
)


@pytest.fixture(scope="module")
def shipped():
    return TransformersGenerator(CHECKPOINT, CHECKPOINT, max_concurrent=128, max_length=256)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def settings(path: Path) -> dict[str, object]:
    """Return what a file says, but for the version of the library that wrote it."""
    return {k: v for k, v in json.loads(path.read_text()).items() if k != "transformers_version"}


def test_two_builds_make_the_same_bytes_and_another_seed_makes_others(tmp_path: Path) -> None:
    for name in ("one", "other"):
        build(tmp_path / name, SMALL)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    build(tmp_path / "third", Recipe(steps=1, seed=1, demonstrations=4, descriptions=4))
    assert digest(tmp_path / "third") != digest(tmp_path / "one")


def test_the_tokenizer_is_the_one_that_the_recipe_makes(tmp_path: Path) -> None:
    build(tmp_path, Recipe(steps=0, demonstrations=1, descriptions=2))
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        assert settings(tmp_path / name) == settings(CHECKPOINT / name)


def test_the_shipped_weights_are_those_of_the_card() -> None:
    card = (CHECKPOINT / CARD).read_text()
    assert f"SHA-256 of `model.safetensors`: `{digest(CHECKPOINT)}`" in card
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) < 2_000_000


def test_transformers_loads_the_shipped_policy() -> None:
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.dtype == torch.float32
    assert sum(parameter.numel() for parameter in model.parameters()) == 434_016


async def test_the_policy_starts_where_the_card_says(shipped: TransformersGenerator) -> None:
    renderer = TinyRenderer.load(CHECKPOINT)
    shares = await policy_scores(shipped, renderer, held_out_tasks())
    assert 0.30 <= shares["all"].hits / shares["all"].of <= 0.37
    assert shares["well"].hits >= 38
    assert 2 <= shares["scarce"].hits <= 12
    assert 20 <= shares["rare"].hits <= 34
    recorded = re.search(r"\| all \| (\d+)/240", (CHECKPOINT / CARD).read_text())
    assert recorded is not None
    assert abs(int(recorded[1]) - shares["all"].hits) <= 2  # another processor rounds otherwise


async def test_the_synthesizer_role_describes_trajectories_and_the_filter_finds_the_right_ones(
    shipped: TransformersGenerator,
) -> None:
    score = await synthesizer_score(shipped, TinyRenderer.load(CHECKPOINT), per_skill=8)
    assert score.valid["all"].hits >= 0.7 * score.valid["all"].of
    assert score.precision.hits >= 0.95 * score.precision.of
    assert score.recall.hits >= 0.95 * score.recall.of
