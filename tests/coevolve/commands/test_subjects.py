import shutil
from pathlib import Path

from coevolve.commands.subjects import OfRun, opened_policy
from coevolve.learning.versions import whole_version
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from tests import evolving
from tests.exporting import move_to_checkpoint, settings, write_run, write_versions


async def test_a_version_in_a_checkpoint_only_is_opened(tmp_path: Path):
    config = settings(RunConfig(name="trial"))
    versions = write_versions(tmp_path / "w", config, [1])
    directory = write_run(tmp_path / "run", config, [*versions, *evolving.story()])
    shutil.move(tmp_path / "w/versions", directory.path / "versions")
    move_to_checkpoint(directory, 1)
    files = LocalFiles(directory.path)
    async with opened_policy(OfRun(directory, "1"), config) as policy:
        assert policy.version is not None
        assert await whole_version(files, policy.version)
    assert not await whole_version(files, versions[0])
