"""Tests that each test of this folder states a fact and names the files that need it."""

import pytest

from tests.assumptions.facts import ROOT, Fact, fact_of, facts

FACTS = facts()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.file}-{fact.test}")
def test_a_fact_is_one_sentence_and_names_the_files_that_need_it(fact: Fact):
    assert faults(fact) == []


def test_no_two_facts_are_the_same():
    sentences = [fact.sentence for fact in FACTS]
    assert sorted(sentences) == sorted(set(sentences))


def faults(fact: Fact) -> list[str]:
    """Return what is wrong with a fact."""
    found = [f"{name} does not exist" for name in fact.needed_by if not (ROOT / name).is_file()]
    if not fact.needed_by:
        found.append("no line 'Needed by: path/to/file.py'")
    if not fact.sentence.endswith(".") or ". " in fact.sentence:
        found.append(f"the first paragraph is not one sentence: {fact.sentence!r}")
    if fact.needed_by and fact.sentence.startswith("Needed by"):
        found.append("no sentence before the files")
    return found


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("", "no line"),
        ("A map grows.", "no line"),
        ("A map grows.\n\nNeeded by: coevolve/journal/gone.py\n", "does not exist"),
        ("A map grows. It shrinks.\n\nNeeded by: pyproject.toml", "not one sentence"),
        ("A map grows\n\nNeeded by: pyproject.toml", "not one sentence"),
        ("Needed by: pyproject.toml", "not one sentence"),
    ],
)
def test_a_fact_without_its_form_is_found(docstring: str, found: str):
    assert any(found in fault for fault in faults(fact_of("test_x.py", "test_x", docstring)))


def test_several_files_may_need_a_fact():
    fact = fact_of("", "", "A map\ngrows.\n\nNeeded by: coevolve/launch.py,\n  pyproject.toml\n")
    assert fact.sentence == "A map grows."
    assert fact.needed_by == ("coevolve/launch.py", "pyproject.toml")
    assert faults(fact) == []
