from pathlib import Path

import pytest

from coevolve.base.shipped import configs, shipped_folder
from coevolve.config.load import load_config
from coevolve.config.run_files import carried, purpose, run_file
from protocols.errors import ConfigError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up in a folder without run files."""
    monkeypatch.chdir(tmp_path)


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        run_file(name)
    return str(caught.value)


def test_what_is_carried_is_there():
    assert {"quickstart", "hdl_tiny"} <= carried().keys()
    assert list(shipped_folder("designs").glob("*/design.yaml"))


@pytest.mark.parametrize(
    "name", ["quickstart", "quickstart.yaml", "configs/quickstart", "./configs/quickstart.yaml"]
)
def test_a_carried_run_file_is_named_from_anywhere(name: str):
    assert run_file(name) == configs() / "quickstart.yaml"
    assert load_config(name).name == "quickstart"


def test_a_file_that_exists_wins():
    Path("quickstart.yaml").write_text("name: mine\n")
    assert load_config("quickstart.yaml").name == "mine"
    assert load_config("quickstart").name == "quickstart"


def test_a_folder_of_the_same_name_does_not_hide_a_carried_run_file():
    Path("quickstart").mkdir()
    assert run_file("quickstart") == configs() / "quickstart.yaml"


def test_a_name_that_is_none_is_answered_with_near_ones():
    Path("mine.yaml").write_text("name: mine\n")
    assert "there is no such run file; did you mean quickstart" in refusal("quickstrat")
    assert refusal("mime").endswith("did you mean mine.yaml?")
    assert "coevolve carries appworld_" in refusal("zzz.yaml")
    assert "the run file stands before its overrides" in refusal("learner.steps=3")


def test_a_name_in_another_folder_is_no_carried_one():
    assert "there is no such run file" in refusal("runs/quickstart.yaml")


def test_a_link_that_leads_nowhere_is_no_run_file():
    Path("mine.yaml").symlink_to("mine.yaml")
    assert refusal("mine.yaml") == (
        "mine.yaml: is a symbolic link that leads to no file; name a run file"
    )


def test_a_folder_is_no_run_file():
    Path("mine").mkdir()
    Path("mine/run.yaml").write_text("name: mine\n")
    assert refusal("mine") == "mine: is a folder with run.yaml; name a run file"


def test_every_carried_run_file_says_what_it_is_for():
    assert all(purpose(path) for path in carried().values())
    assert purpose(carried()["quickstart"]) == "The embedded default: no GPU, no key, no download."
