import shutil
from pathlib import Path

import pytest
import yaml

from coevolve.environments.hdl.designs.design import PointsFile
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.qualify import freeze, frozen
from protocols.errors import ConfigError

POINTS = PointsFile(count=123, sha256="cd" * 32)
LINE = f"points: {{count: 123, sha256: {'cd' * 32}}}\n"
DESIGN = Path(__file__).parents[5] / "designs" / "sync_fifo"


def test_points_are_added_at_the_end_and_comments_stay() -> None:
    text = "# A queue.\ntop: queue  # the only module\nseed: 3"
    assert frozen(text, POINTS) == f"{text}\n{LINE}"


@pytest.mark.parametrize(
    "old", ["points: {count: 1, sha256: ab}\n", "points:\n  count: 1\n  sha256: ab\n"]
)
def test_points_that_were_frozen_before_are_replaced_in_place(old: str) -> None:
    assert (
        frozen(f"top: queue\n{old}# why\nseed: 3\n", POINTS)
        == f"top: queue\n{LINE}# why\nseed: 3\n"
    )


def test_a_key_that_only_ends_in_points_stays() -> None:
    assert frozen("# points: none\n", POINTS) == f"# points: none\n{LINE}"


def test_a_frozen_design_loads_with_its_points(tmp_path: Path) -> None:
    folder = tmp_path / "sync_fifo"
    shutil.copytree(DESIGN, folder)
    freeze(folder, POINTS)
    assert load(folder).file.points == POINTS
    freeze(folder, POINTS)
    assert (folder / "design.yaml").read_text().count("points:") == 1


def test_a_layout_that_cannot_be_edited_is_refused_and_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "sync_fifo"
    shutil.copytree(DESIGN, folder)
    path = folder / "design.yaml"
    path.write_text(str(yaml.safe_load(path.read_text())))
    before = path.read_text()
    with pytest.raises(ConfigError, match="write it by hand: points: "):
        freeze(folder, POINTS)
    assert path.read_text() == before
