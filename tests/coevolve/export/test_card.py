"""The card of an export has the metadata that the Hub reads."""

import shutil
from pathlib import Path

from huggingface_hub import metadata_load
from huggingface_hub.repocard_data import model_index_to_eval_results

from coevolve.models.model_folder import hub_base
from protocols.config import PolicyConfig, RunConfig
from tests import evolving
from tests.commands import called
from tests.exporting import scored, settings, write_run, write_versions


def test_the_card_of_weights_has_the_metadata_of_the_hub(quickstart: RunConfig, tmp_path: Path):
    config = settings(quickstart)
    versions = write_versions(tmp_path, config, (0,))
    directory = write_run(tmp_path / "trial", config, [*versions, *evolving.story(), scored(0, 3)])
    shutil.move(tmp_path / "versions", directory.path / "versions")
    out = tmp_path / "policy"
    answer = called("export", str(directory.path), "merged", "--to", str(out))
    assert answer.stdout == f"{out}: merged of version 0, 75.0 ± 16.7 % held-out success\n"
    assert not [path for path in out.iterdir() if str(tmp_path).encode() in path.read_bytes()]
    metadata = metadata_load(out / "README.md")
    assert metadata
    assert metadata["library_name"] == "transformers"
    _, results = model_index_to_eval_results(metadata["model-index"])
    assert {(each.metric_type, each.metric_value) for each in results} == {("success", 0.75)}
    assert 'from_pretrained("policy")' in (out / "README.md").read_text()


def test_only_a_model_of_the_hub_is_named_as_the_base(tmp_path: Path):
    assert not hub_base(PolicyConfig(model=str(tmp_path)))
    assert hub_base(PolicyConfig(model="Qwen/Qwen3-4B")) == "Qwen/Qwen3-4B"
