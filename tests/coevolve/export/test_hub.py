"""An export is pushed to the Hub when its user asks and is logged in, and not otherwise."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import metadata_load
from huggingface_hub.repocard_data import model_index_to_eval_results

from coevolve.export.hub import check_base
from coevolve.history.directory import RunDirectory
from coevolve.models.model_folder import hub_base
from protocols.config import PolicyConfig, RunConfig
from protocols.errors import RunError
from tests import evolving
from tests.commands import Answer, called
from tests.exporting import scored, settings, write_run, write_versions
from tests.hub import TOKEN, Hub, serving_hub


@pytest.fixture
def run(quickstart: RunConfig, tmp_path: Path) -> RunDirectory:
    config = settings(quickstart)
    versions = write_versions(tmp_path, config, (0,))
    directory = write_run(tmp_path / "trial", config, [*versions, *evolving.story(), scored(0, 3)])
    shutil.move(tmp_path / "versions", directory.path / "versions")
    return directory


def pushed(hub: Hub, *words: object, token: str = TOKEN) -> Answer:
    return called(
        *("export", *map(str, words)),
        HF_ENDPOINT=hub.url,
        HF_TOKEN=token,
        HF_TOKEN_PATH="/no/such/file",
        HF_HUB_DISABLE_XET="1",
    )


def test_weights_are_pushed_with_a_card_that_the_hub_reads(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "policy"
    with serving_hub() as hub:
        answer = pushed(hub, run.path, "merged", "--to", out, "--push", "alice/policy")
        url = f"{hub.url}/alice/policy"
    assert answer.stdout == f"{out}: merged of version 0, 75.0 ± 16.7 % held-out success\n{url}\n"
    assert [(each["name"], each["visibility"]) for each in hub.created] == [("policy", "private")]
    assert hub.files == {
        f"models/alice/policy/{path.name}": path.read_bytes() for path in out.iterdir()
    }
    assert not [name for name, content in hub.files.items() if str(tmp_path).encode() in content]
    metadata = metadata_load(out / "README.md")
    assert metadata
    assert metadata["library_name"] == "transformers"
    _, results = model_index_to_eval_results(metadata["model-index"])
    assert {(each.metric_type, each.metric_value) for each in results} == {("success", 0.75)}
    assert 'from_pretrained("alice/policy")' in (out / "README.md").read_text()


def test_a_table_is_pushed_as_a_data_set(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "pool"
    with serving_hub() as hub:
        answer = pushed(hub, run.path, "pool", "--to", out, "--push", "alice/pool")
        assert answer.stdout.endswith(f"\n{hub.url}/datasets/alice/pool\n"), answer.stderr
    assert "datasets/alice/pool/README.md" in hub.files
    assert 'load_dataset("alice/pool"' in (out / "README.md").read_text()


def test_nothing_is_written_or_sent_without_a_login(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "pool"
    with serving_hub() as hub:
        answer = pushed(hub, run.path, "pool", "--to", out, "--push", "alice/pool", token="hf_old")
    assert answer.returncode == 1
    assert f"--push alice/pool: needs a login at {hub.url}: " in answer.stderr
    assert "log in with `hf auth login`" in answer.stderr
    assert not hub.created
    assert not out.exists()


def test_a_push_that_the_hub_refuses_leaves_the_folder(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "pool"
    with serving_hub() as hub:
        hub.refuses = True
        answer = pushed(hub, run.path, "pool", "--to", out, "--push", "alice/pool")
    assert answer.returncode == 1
    assert f"{out} is complete, but cannot be pushed to alice/pool: " in answer.stderr
    assert f"hf upload alice/pool {out} --repo-type dataset" in answer.stderr
    assert (out / "README.md").exists()
    assert TOKEN not in answer.stderr


def test_an_adapter_of_a_local_model_is_not_pushed(tmp_path: Path):
    with pytest.raises(RunError, match="push `merged` instead"):
        check_base(PolicyConfig(model=str(tmp_path)))
    published = PolicyConfig(model="Qwen/Qwen3-4B")
    check_base(published)
    assert hub_base(published) == "Qwen/Qwen3-4B"


def test_a_name_that_is_none_is_refused():
    answer = called("export", "trial", "pool", "--to", "o", "--push", "policy")
    assert answer.returncode == 2
    assert "needs OWNER/NAME, found 'policy'" in answer.stderr
