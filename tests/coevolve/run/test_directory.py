from pathlib import Path

import msgspec
import pytest

from coevolve.run import directory as run_directory
from protocols.config import RunConfig
from protocols.errors import RunError


def test_an_existing_run_is_not_overwritten(tmp_path: Path, quickstart: RunConfig):
    run_directory.create(tmp_path / "a", quickstart)
    before = (tmp_path / "a" / "run.json").read_bytes()
    with pytest.raises(RunError, match=r"exists already; --resume continues that run"):
        run_directory.create(tmp_path / "a", quickstart)
    assert (tmp_path / "a" / "run.json").read_bytes() == before


def test_the_config_written_is_the_config_read(tmp_path: Path, quickstart: RunConfig):
    assert run_directory.create(tmp_path / "a", quickstart).config() == quickstart


def test_resuming_keeps_the_identity_and_takes_harmless_changes(
    tmp_path: Path, quickstart: RunConfig
):
    identity = run_directory.create(tmp_path / "a", quickstart).identity()
    longer = msgspec.structs.replace(
        quickstart, learner=msgspec.structs.replace(quickstart.learner, steps=200)
    )
    reopened = run_directory.reopen(tmp_path / "a", longer)
    assert reopened.identity() == identity
    assert reopened.config() == quickstart
    reopened.settle(longer, identity)
    assert reopened.config().learner.steps == 200


def test_resuming_as_another_experiment_is_refused_by_name_and_value(
    tmp_path: Path, quickstart: RunConfig
):
    run_directory.create(tmp_path / "a", quickstart)
    other = msgspec.structs.replace(quickstart, seed=7)
    with pytest.raises(RunError, match="seed: was 0, is 7"):
        run_directory.reopen(tmp_path / "a", other)
    assert run_directory.RunDirectory(tmp_path / "a").config().seed == 0


def test_resuming_nothing_is_refused(tmp_path: Path, quickstart: RunConfig):
    with pytest.raises(RunError, match="there is no run to resume; leave --resume out"):
        run_directory.reopen(tmp_path / "a", quickstart)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, quickstart: RunConfig):
    (tmp_path / "a").mkdir()
    with pytest.raises(RunError, match=r"is no run directory, it has no run\.json"):
        run_directory.reopen(tmp_path / "a", quickstart)


def test_the_newest_run_is_found(tmp_path: Path, quickstart: RunConfig):
    with pytest.raises(RunError, match="holds no run"):
        run_directory.newest(tmp_path)
    run_directory.create(tmp_path / "a", quickstart)
    run_directory.create(tmp_path / "b", quickstart)
    assert run_directory.newest(tmp_path).path.name == "b"
