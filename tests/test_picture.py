"""The picture in the docs shows what the live screen shows of a recorded run."""

import html
import re
from collections.abc import Iterable

from coevolve.screen.drawing import draw
from tests.picture import PICTURE, RECORDED, SIZE, recorded_view, svg
from tests.screens import plain

MOST_BYTES = 64_000


def letters(texts: Iterable[str]) -> str:
    """Return the texts without blanks."""
    return "".join("".join(texts).split())


def drawn(picture: str) -> str:
    return letters(map(html.unescape, re.findall(r"<text [^>]*>([^<]*)</text>", picture)))


def test_the_picture_is_that_of_the_recorded_run():
    lines = plain(draw(recorded_view(), *SIZE), SIZE)
    assert len(lines) >= SIZE[1] - 3
    assert letters(lines) in drawn(PICTURE.read_text())
    assert drawn(PICTURE.read_text()) == drawn(svg(recorded_view()))


def test_the_picture_is_small_and_needs_no_network():
    picture = PICTURE.read_text()
    assert len(picture) < MOST_BYTES
    assert len(RECORDED.read_bytes()) < MOST_BYTES
    assert "url(http" not in picture
    assert "@font-face" not in picture
