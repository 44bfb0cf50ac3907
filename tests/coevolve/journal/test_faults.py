"""No fault of the journal's file leads to a wrong answer, or to anything but a clear error."""

import random
from pathlib import Path
from typing import get_args

import pytest

from tests.faults import Kind, Planted, planted, tried

SIZE_BYTES = 400_000
PER_KIND = 8


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return planted(tmp_path_factory.mktemp("faults") / "store", SIZE_BYTES)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_fault_of_the_file_is_silent_or_raw(
    journal: Planted, tmp_path: Path, kind: Kind
) -> None:
    chance = random.Random(kind)
    verdicts = [tried(journal, kind, chance, tmp_path / str(n)) for n in range(PER_KIND)]
    wrong = [each for each in verdicts if each.outcome in ("silent", "raw")]
    assert not wrong
    clear = [each.said for each in verdicts if each.outcome == "clear"]
    assert clear
    assert all("repair RUN" in said for said in clear)
