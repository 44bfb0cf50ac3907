"""The mutants fit the present sources, and the bench tells a noticed one from one that survives."""

from pathlib import Path

import pytest

from tests.bench.mutants import ROOT, broken, judged
from tests.bench.promises import MUTANTS, OTHERS, Mutant

SOURCE = "def double(number):\n    return 2 * number\n"
TEST = "from doubling import double\n\ndef test_two():\n    assert double(2) == 4\n"


@pytest.mark.parametrize("mutant", [*MUTANTS, *OTHERS], ids=lambda mutant: mutant.promise)
def test_a_mutant_changes_a_line_that_is_there_and_names_tests_that_are_there(mutant: Mutant):
    text = (ROOT / mutant.file).read_text()
    assert broken(mutant, text) != text
    assert mutant.tests
    for each in mutant.tests:
        file, _, name = each.partition("::")
        assert not name or f"def {name}(" in (ROOT / file).read_text()
        assert (ROOT / file).exists()


def test_promises_are_different():
    assert len({each.promise for each in (*MUTANTS, *OTHERS)}) == 40


def mutant(old: str, new: str) -> Mutant:
    tests = ("test_doubling.py",)
    return Mutant(promise="doubles", file="doubling.py", old=old, new=new, tests=tests)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "doubling.py").write_text(SOURCE)
    (tmp_path / "test_doubling.py").write_text(TEST)
    return tmp_path


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        ("3 * number", "noticed: FAILED test_doubling.py::test_two"),
        ("number + number", "survived"),
        ("2 *", "did not run"),
    ],
)
def test_a_mutant_is_noticed_survives_or_cannot_be_run(tree: Path, new: str, verdict: str):
    assert judged(tree, mutant("2 * number", new)).startswith(verdict)
    assert (tree / "doubling.py").read_text() == SOURCE


@pytest.mark.parametrize("old", ["4 * number", "number"])
def test_a_change_that_fits_nowhere_or_twice_is_refused(tree: Path, old: str):
    with pytest.raises(ValueError, match=r"needs .* once, found it"):
        judged(tree, mutant(old, "0"))
