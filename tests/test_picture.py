"""The picture in the docs shows what the live screen shows of a recorded run."""

import html
import re

from coevolve.runs.screen.drawing import draw
from tests.picture import PICTURE, RECORDED, SIZE, recorded_view, svg
from tests.screens import plain

MOST_BYTES = 64_000


def words(picture: str) -> set[str]:
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    return set(" ".join(map(html.unescape, texts)).split())


def test_the_picture_is_that_of_the_recorded_run():
    picture = PICTURE.read_text()
    lines = plain(draw(recorded_view(), *SIZE), SIZE)
    assert len(lines) == SIZE[1] - 1
    assert set(" ".join(lines).split()) <= words(picture)
    assert words(picture) == words(svg(recorded_view()))


def test_the_picture_is_small_and_needs_no_network():
    picture = PICTURE.read_text()
    assert len(picture) < MOST_BYTES
    assert len(RECORDED.read_bytes()) < MOST_BYTES
    assert "url(http" not in picture
    assert "@font-face" not in picture
