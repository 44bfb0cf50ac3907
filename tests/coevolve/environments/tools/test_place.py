import os

import pytest

from coevolve.environments.tools.place import PLACE_BYTES, STEP_CHARS, Place


def test_another_mapping_of_the_memory_reads_the_place() -> None:
    memory = os.memfd_create("place")
    os.ftruncate(memory, PLACE_BYTES)
    child, parent = Place(memory), Place(memory)
    os.close(memory)
    assert (parent.position, parent.step) == (0, "")
    child.position, child.step = 7, "ls(folder='a')"
    assert (parent.position, parent.step) == (7, "ls(folder='a')")
    child.step = ""
    assert (parent.position, parent.step) == (7, "")


@pytest.mark.parametrize("text", ["x" * 10_000, "𝄞" * 10_000, "\ud800" * 10_000])
def test_a_long_text_is_cut(text: str) -> None:
    place = Place(-1)
    place.step = text
    assert len(place.step) == STEP_CHARS
