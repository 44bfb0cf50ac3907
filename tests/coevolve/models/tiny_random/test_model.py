import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from transformers import AutoModelForCausalLM

from coevolve.config.load import load_config
from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.launcher.launch import dry_run
from coevolve.models.architecture import KNOWN, architecture, read_config
from coevolve.models.atomic_folder import folder_digest
from coevolve.models.model_folder import check_model, model_folder
from coevolve.models.tiny_random.model import write_model
from protocols.config import PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import ConfigError, DependencyError

TEXTS = tuple(Bfcl(RunConfig(name="texts", environment={"use": "bfcl"})).texts())

DENSE = "Qwen/Qwen3-4B-Instruct-2507"
BIASED = "Qwen/Qwen2.5-7B-Instruct"
EXPERTS = "Qwen/Qwen3-30B-A3B-Instruct-2507"


def tiny_random(model: str, seed: int = 0) -> RunConfig:
    return RunConfig(
        name="tiny",
        seed=seed,
        policy=PolicyConfig(model=model, tiny_random=True),
        rollout=RolloutConfig(max_tokens=8192),
    )


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense") / "model"
    write_model(tiny_random(DENSE), folder, TEXTS)
    return folder


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (DENSE, "Qwen3ForCausalLM"),
        (BIASED, "Qwen2ForCausalLM"),
        (EXPERTS, "Qwen3MoeForCausalLM"),
    ],
)
def test_a_tiny_random_model_keeps_the_architecture(tmp_path: Path, model: str, kind: str):
    folder = tmp_path / "model"
    write_model(tiny_random(model), folder, TEXTS)
    loaded = AutoModelForCausalLM.from_pretrained(model_folder(str(folder)))
    assert type(loaded).__name__ == kind
    own, small = KNOWN[model], loaded.config
    assert small.tie_word_embeddings == own["tie_word_embeddings"]
    assert small.rope_parameters["rope_theta"] == own["rope_theta"]
    assert small.max_position_embeddings == 8192
    count = sum(parameter.numel() for parameter in loaded.parameters())
    assert count < 500_000
    sizes = architecture(read_config(folder))
    assert sizes is not None
    assert (sizes.parameters, sizes.head_size) == (count, 32)


def test_the_seed_decides_the_weights(tmp_path: Path, dense: Path):
    write_model(tiny_random(DENSE), tmp_path / "same", TEXTS)
    write_model(tiny_random(DENSE, seed=1), tmp_path / "other", TEXTS)
    assert folder_digest(tmp_path / "same") == folder_digest(dense)
    assert folder_digest(tmp_path / "other") != folder_digest(dense)


def test_a_model_that_was_written_before_stays(dense: Path):
    before = folder_digest(dense)
    write_model(tiny_random(DENSE, seed=1), dense, TEXTS)
    assert folder_digest(dense) == before


def test_a_dry_run_estimates_the_tiny_random_model_first(dense: Path):
    said = dry_run(load_config("bfcl_qwen3_4b", ["policy.tiny_random=true"]))
    estimated = [line for line in said.splitlines() if line.startswith("# ")]
    assert estimated[0].startswith("# estimate for a tiny random model in place of Qwen/Qwen3-4B")
    sizes = architecture(read_config(dense))
    found = re.fullmatch(r"# parameters: (\d+) k, of which \1 k learn", estimated[1])
    assert found
    assert sizes
    assert 1000 * int(found[1]) == pytest.approx(sizes.parameters, rel=0.02)
    (real,) = (line for line in estimated if "itself: " in line)
    assert "Instruct-2507 itself: 4.02 G parameters, learner's device 27.3 GB" in real


def test_a_tiny_random_model_follows_the_config_of_a_model_on_disk(tmp_path: Path, dense: Path):
    again = tmp_path / "again"
    write_model(tiny_random(str(dense), seed=1), again, TEXTS)
    loaded = AutoModelForCausalLM.from_pretrained(again)
    assert type(loaded).__name__ == "Qwen3ForCausalLM"
    assert (again / "chat_template.jinja").read_text() == (
        dense / "chat_template.jinja"
    ).read_text()


def test_an_architecture_that_nobody_makes_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "unheard_of"}')
    with pytest.raises(
        ConfigError, match=r"policy.tiny_random: needs an architecture .*'unheard_of'"
    ):
        write_model(tiny_random(str(tmp_path)), tmp_path / "model", TEXTS)


def test_a_model_without_a_tiny_random_version_is_refused_before_the_run():
    check_model(tiny_random(DENSE).policy, own=())
    with pytest.raises(ConfigError, match=r"policy.tiny_random: .* found 'tiny', which is small"):
        check_model(tiny_random("tiny").policy, own=())
    with pytest.raises(ConfigError, match="hf download Some/Model"):
        check_model(tiny_random("Some/Model").policy, own=())
    with pytest.raises(DependencyError, match=f"hf download {DENSE}"):
        check_model(replace(tiny_random(DENSE).policy, tiny_random=False), own=())


def test_a_model_that_the_environment_makes_need_not_be_there():
    check_model(PolicyConfig(model="sprout"), own=("sprout",))
    with pytest.raises(ConfigError, match="found 'sprout', which is no folder"):
        check_model(PolicyConfig(model="sprout"), own=())
    with pytest.raises(ConfigError, match=r"policy.tiny_random: .* found 'sprout', which is small"):
        check_model(PolicyConfig(model="sprout", tiny_random=True), own=("sprout",))
