"""Words about classes of a user's own."""

from pathlib import Path

import pytest

from coevolve.base.user_code import NamedClass, resume_command
from protocols.config import RunConfig
from protocols.errors import ConfigError


def test_the_command_that_continues_a_run_names_the_folder_of_the_users_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    config = RunConfig(name="shop", environment={"use": "shopdb:Shop"})
    assert resume_command("shop", config) == "coevolve resume shop"  # of an installed package
    (tmp_path / "shopdb.py").touch()
    assert resume_command("shop", config) == "coevolve resume shop --code ."
    assert resume_command("q", RunConfig(name="q")) == "coevolve resume q"


def test_a_module_in_the_working_folder_is_refused_with_the_option_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hidden_shop.py").touch()
    named = NamedClass(setting="environment.use", what="an environment", group="none")
    with pytest.raises(ConfigError, match=r"it is in this folder; give --code \. to a command"):
        named.load("hidden_shop:Shop", "hidden_shop:Shop")


def test_a_file_that_an_installed_module_hides_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "msgspec.py").touch()
    named = NamedClass(setting="environment.use", what="an environment", group="none")
    with pytest.raises(ConfigError, match=r"hides msgspec\.py of this folder; .* my_msgspec\.py"):
        named.load("msgspec:Shop", "msgspec:Shop")
