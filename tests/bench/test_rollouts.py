import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY_FOLDER
from protocols import columns
from protocols.rollouts import Rollout, Tokens
from tests.bench.rollouts import waves_of
from tests.bench.wider import wider_policy

ROOT = Path(__file__).parents[2]
GROUP_SIZE = 8


def rollout(index: int, mask: list[int]) -> Rollout:
    """Return a rollout whose tokens are numbered from ten times its index."""
    tokens = Tokens(
        token_ids=columns.int32(range(10 * index, 10 * index + len(mask))),
        mask=columns.uint8(mask),
        logprobs=columns.float32([0.0] * len(mask)),
        versions=columns.int32([each - 1 for each in mask]),
    )
    return Rollout(
        group_id="g0",
        group=0,
        index=index,
        group_size=GROUP_SIZE,
        task_id="t0",
        seed=index,
        tokens=tokens,
        actions=(),
        turns_passed=0,
        turns_total=1,
        reward=0.0,
        version_min=0,
        version_max=0,
        ended="wrong",
        wall_s=0.1,
    )


def test_every_generation_is_repeated_after_its_own_prompt_in_the_wave_of_its_number():
    waves = waves_of([rollout(1, [0, 1]), rollout(0, [0, 0, 1, 1, 0, 1])], temperature=0.5)
    asked = [[(each.prompt_ids, each.tokens) for each in wave] for wave in waves]
    assert asked == [[((0, 1), 2), ((10,), 1)], [((0, 1, 2, 3, 4), 1)]]
    assert [each.seed for each in waves[0]] == [2, 1_000_003 + 1]
    assert {each.temperature for wave in waves for each in wave} == {0.5}


def test_a_wider_policy_has_the_same_output(tmp_path: Path):
    parameters = wider_policy(tmp_path / "wide", 600)
    token_ids = torch.arange(6, 70)[None]
    models = [read_model(folder) for folder in (TINY_FOLDER, tmp_path / "wide")]
    own, wide = (model(input_ids=token_ids).logits for model in models)
    assert parameters == models[0].num_parameters() + 3 * 3 * 96 * (600 - 288)
    torch.testing.assert_close(wide, own, atol=1e-4, rtol=1e-4)


def test_layers_narrower_than_the_policys_own_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="from 288 on, found 100"):
        wider_policy(tmp_path / "narrow", 100)


@pytest.mark.ray
@pytest.mark.vllm
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_both_sides_sample_the_same_number_of_tokens_and_the_ratio_is_printed():
    command = [sys.executable, "-m", "tests.bench", "rollouts", "--json"]
    size = ["--widths", "288", "--rollouts", "12", "--rounds", "1"]
    done = subprocess.run([*command, *size], capture_output=True, text=True, check=True, cwd=ROOT)
    (row,) = json.loads(done.stdout.splitlines()[-1])
    (only,) = row["rounds"]
    assert only["rollouts"] == 2 * GROUP_SIZE
    assert only["generations"] >= 2 * GROUP_SIZE
    assert only["tokens"] == only["raw"]["tokens"] > only["generations"]
    assert row["ratio"] == pytest.approx(row["tokens_per_s"] / row["raw_tokens_per_s"])
    assert row["ratio"] > 0
