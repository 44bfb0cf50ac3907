import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from coevolve.history.directory import RunDirectory
from coevolve.learning.policy import Policy
from protocols.config import RunConfig
from tests import evolving
from tests.coevolve.export.conftest import Export, Refusal
from tests.exporting import (
    chat_model,
    move_to_checkpoint,
    policy_of,
    scored,
    settings,
    watched,
    write_run,
    write_versions,
)

IDS = torch.tensor([[5, 17, 40, 3, 99, 250, 7, 8, 61]])
MASK = torch.ones_like(IDS, dtype=torch.bool)
MASK[:, 0] = False
TEXTS = ("List the files of this folder.", "Count the lines of the report.") * 20


@pytest.fixture(scope="module")
def quickstart() -> RunConfig:
    return RunConfig(name="trial")


@pytest.fixture(scope="module")
def full(quickstart: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Versions 0 to 3 of the tiny policy: 1 has no weights, 2 has them in a checkpoint only."""
    path = tmp_path_factory.mktemp("full") / "trial"
    config = settings(quickstart)
    versions = write_versions(path.parent / "w", config, range(4))
    # Version 3 has the higher held-out score, version 2 the higher canary score, which decides.
    scores = [scored(0, 1), scored(2, 3), scored(3, 4), watched(0, 1), watched(2, 3), watched(3, 2)]
    story = [*versions, *evolving.story(), *scores]
    directory = write_run(path, config, story)
    shutil.move(path.parent / "w" / "versions", path / "versions")
    shutil.rmtree(path / "versions" / "v_1")
    move_to_checkpoint(directory, 2)
    return directory


@pytest.fixture(scope="module")
def lora(quickstart: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Versions 0 and 1 of an adapter for a chat model."""
    path = tmp_path_factory.mktemp("lora") / "trial"
    base = chat_model(path.parent / "base-model", TEXTS)
    config = settings(quickstart, policy={"model": str(base), "train": "lora"})
    versions = write_versions(path.parent / "w", config, (0, 1))
    directory = write_run(path, config, [*versions, scored(1, 2)])
    shutil.move(path.parent / "w" / "versions", path / "versions")
    return directory


def own_logprobs(policy: Policy) -> torch.Tensor:
    with torch.no_grad():
        return policy.logprobs(IDS, MASK, temperature=1.0)[0]


def plain_logprobs(model: torch.nn.Module) -> torch.Tensor:
    """Return logprobs computed without this project's code: a full softmax at each position."""
    with torch.no_grad():
        logits = model(input_ids=IDS).logits[0]
    return torch.stack(
        [torch.log_softmax(logits[t], -1)[IDS[0, t + 1]] for t in range(IDS.shape[1] - 1)]
    )


def test_merged_full_weights_are_the_runs_own_and_load_in_plain_transformers(
    full: RunDirectory, export: Export, tmp_path: Path
):
    out = tmp_path / "new" / "policy"
    said = export(full.path, "merged", "--to", out)
    assert said == f"{out}: merged of version 3, 100.0 ± 12.5 % held-out success\n"
    own = full.path / "versions" / "v_3" / "model.safetensors"
    assert (out / "model.safetensors").read_bytes() == own.read_bytes()
    model = AutoModelForCausalLM.from_pretrained(out)
    torch.testing.assert_close(plain_logprobs(model), own_logprobs(policy_of(full, 3)))
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.decode(tokenizer.encode("ls(a=True)")) == "ls(a=True)"
    assert not list(out.glob("*.pt"))


def test_a_merged_adapter_is_the_runs_own_policy_in_plain_transformers(
    lora: RunDirectory, export: Export, tmp_path: Path
):
    export(lora.path, "merged", "--version", "1", "--to", tmp_path / "policy")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy")
    found = plain_logprobs(model)
    torch.testing.assert_close(found, own_logprobs(policy_of(lora, 1)), atol=1e-5, rtol=1e-5)
    assert (found - own_logprobs(policy_of(lora, 0))).abs().max() > 0.01
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "policy")
    said = tokenizer.apply_chat_template([{"role": "user", "content": "Go."}], tokenize=False)
    assert said == "<|im_start|>user\nGo.<|im_end|>\n"


def test_an_adapter_loads_in_peft_on_the_base(lora: RunDirectory, export: Export, tmp_path: Path):
    out = tmp_path / "adapter"
    export(lora.path, "adapter", "--to", out)
    base = AutoModelForCausalLM.from_pretrained(lora.config().policy.model)
    model = PeftModel.from_pretrained(base, str(out))
    torch.testing.assert_close(plain_logprobs(model), own_logprobs(policy_of(lora, 1)))
    by_its_config = AutoPeftModelForCausalLM.from_pretrained(str(out))
    torch.testing.assert_close(plain_logprobs(by_its_config), own_logprobs(policy_of(lora, 1)))
    assert AutoTokenizer.from_pretrained(out).chat_template


def test_the_best_version_is_found_even_in_a_checkpoint(
    full: RunDirectory, export: Export, tmp_path: Path
):
    said = export(full.path, "merged", "--version", "best", "--to", tmp_path / "best")
    assert "version 2, chosen from 3 by 4 canaries; held-out success 75.0 ± 16.7 % of 4" in said
    assert "This is version 2, chosen from" in (tmp_path / "best" / "README.md").read_text()
    assert {path.name for path in (tmp_path / "best").iterdir()} == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    }


def test_the_card_describes_the_run_and_the_loading(
    full: RunDirectory, export: Export, tmp_path: Path
):
    export(full.path, "merged", "--version", "2", "--to", tmp_path / "policy")
    card = (tmp_path / "policy" / "README.md").read_text()
    for told in (
        "# trial, version 2",
        "| all | 75.0 ± 16.7 % | 75.0 \\[30.1, 95.4\\] | 4 |",
        "Somebody chose this version by its number.",
        "| arm | static |",
        "| seed tasks | 1 |",
        "| synthesized tasks | 1 |",
        "| forgetting | 1 | 1 synthesized |",
        "| policy@0 | 3 | 1 | 2 | 400 | 1.0000 |",
        "| synthesizer, cost | 1.0000 USD |",
        'AutoModelForCausalLM.from_pretrained("policy")',
        "vllm serve policy",
        "SHA-256 ",
    ):
        assert told in card, told
    assert str(full.path.parent) not in card


def test_the_card_of_an_adapter_names_the_base(lora: RunDirectory, export: Export, tmp_path: Path):
    export(lora.path, "adapter", "--version", "0", "--to", tmp_path / "adapter")
    card = (tmp_path / "adapter" / "README.md").read_text()
    assert "With the base model, base-model, in the folder BASE" in card
    assert "This version has no score" in card
    assert "PeftModel.from_pretrained" in card
    assert "--max-lora-rank 16 --lora-modules policy=adapter" in card


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("1", "version 1 is not available: its weights were removed; weights exist for "),
        ("9", "version 9 is not available: the run never made it; weights exist for "),
    ],
)
def test_a_version_without_weights_is_refused_and_others_are_listed(
    full: RunDirectory, refusal: Refusal, tmp_path: Path, wanted: str, told: str
):
    said = refusal(full.path, "merged", "--version", wanted, "--to", tmp_path / "policy")
    assert told + "version 0, 2, 3." in said
    assert not list(tmp_path.iterdir())


def test_full_weights_have_no_adapter(full: RunDirectory, refusal: Refusal, tmp_path: Path):
    said = refusal(full.path, "adapter", "--to", tmp_path / "policy")
    assert "version 3 has full weights (policy.train: full) and no adapter; export `merged`" in said
    assert not list(tmp_path.iterdir())


def test_a_run_without_versions_or_scores_is_refused_with_the_reason(
    quickstart: RunConfig, refusal: Refusal, tmp_path: Path
):
    config = settings(quickstart)
    early = write_run(tmp_path / "early", config, [])
    assert "no policy version yet" in refusal(early.path, "merged", "--to", tmp_path / "x")
    versions = write_versions(tmp_path / "w", config, (0,))
    unscored = write_run(tmp_path / "unscored", config, versions)
    said = refusal(unscored.path, "merged", "--to", tmp_path / "x")
    assert "has no weights for any of the 1 policy versions" in said
    shutil.move(tmp_path / "w" / "versions", unscored.path / "versions")
    said = refusal(unscored.path, "merged", "--version", "best", "--to", tmp_path / "x")
    assert (
        "no version has a score, neither on the guard's canaries (learner.guard) nor on held-out "
        "tasks (evaluator.every), so there is no best one" in said
    )
    assert "--version newest gives version 0" in said


def test_a_target_that_is_not_empty_is_left_unchanged(
    full: RunDirectory, refusal: Refusal, export: Export, tmp_path: Path
):
    (tmp_path / "note").write_text("mine")
    said = refusal(full.path, "merged", "--to", tmp_path)
    assert f"{tmp_path}: an export needs a new or empty folder" in said
    assert "needs a new or empty folder" in refusal(full.path, "pool", "--to", tmp_path / "note")
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
    (tmp_path / "empty").mkdir()
    export(full.path, "merged", "--to", tmp_path / "empty")
    assert json.loads((tmp_path / "empty" / "config.json").read_text())["model_type"] == "qwen3"


def test_a_name_without_a_run_is_refused(refusal: Refusal, tmp_path: Path):
    said = refusal("nobody", "--runs", tmp_path, "merged", "--to", tmp_path / "x")
    assert "nobody: is neither a run's folder nor the name of one" in said
