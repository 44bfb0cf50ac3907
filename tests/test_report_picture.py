"""The pictures in the docs show what the report shows of a recorded run."""

import struct
from pathlib import Path

from coevolve.report.page import page
from tests.browser import needs_browser
from tests.report_picture import HEIGHT, METRICS, PICTURES, SECTIONS, WIDTH, draw, recorded_data


def size(picture: Path) -> tuple[int, int]:
    """Return width and height of a PNG file."""
    return struct.unpack(">II", picture.read_bytes()[16:24])


def test_the_recorded_data_has_two_runs_and_a_group(tmp_path: Path):
    text = page(recorded_data(tmp_path))
    assert "1 of 1 finished groups are in this page" in text
    assert text.count('class="curve"') == len(METRICS) - 1


@needs_browser
def test_the_pictures_can_be_drawn_again(tmp_path: Path):
    draw(tmp_path, tmp_path)
    for section in SECTIONS:
        name = f"report_{section}.png"
        assert size(tmp_path / name) == size(PICTURES / name) == (WIDTH, HEIGHT)
        assert 20_000 < (PICTURES / name).stat().st_size < 300_000
        assert f"({name})" in (PICTURES / "report.md").read_text()
