"""The meanings of metrics, read from the page that has them."""

import pytest

from coevolve.history.metric_docs import meaning_of, meanings, term_of, terms
from tests.commands import answered


def test_every_row_of_the_page_has_a_meaning():
    names = [name for each in meanings() for name in each.names]
    assert len(names) == len(set(names)) > 100
    assert all(each.meaning and each.section for each in meanings())
    assert not any("`" in each.meaning + each.moves + each.unit for each in meanings())


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("actor/entropy", "entropy of the policy on its own tokens"),
        ("val/success/all", "held-out tasks that the policy solved"),
        ("val/success/pairs trained", "held-out tasks of one group"),
        ("val/coverage/all", "mean of a measure of the environment"),
        ("val/coverage_std_error/all", "standard error of the score"),
        ("validator/reject/duplicate", "refused, by gate"),
    ],
)
def test_a_metric_is_explained_by_its_name_or_by_that_of_its_kind(metric: str, words: str):
    found = meaning_of(metric)
    assert found is not None
    assert words in found.meaning
    assert words.split()[0] in answered("explain", metric).stdout


def test_an_unknown_metric_is_refused_with_the_nearest_name():
    assert meaning_of("actor/entropi") is None
    refused = answered("explain", "actor/entropi")
    assert refused.returncode == 2
    assert "did you mean 'actor/entropy'?" in refused.stderr
    assert "lists all" in answered("explain", "zzz").stderr


def test_without_a_name_all_metrics_are_listed():
    listed = answered("explain").stdout
    assert len(meanings()) > 50
    assert all(name in listed for each in meanings() for name in each.names)


def test_every_row_of_the_glossary_is_a_term_with_names_of_its_own():
    names = [name.lower() for each in terms() for name in each.names]
    assert len(names) == len(set(names)) > 80
    assert all(each.meaning and "`" not in each.meaning for each in terms())
    assert names == sorted(
        names,
        key=lambda name: next(
            each.names[0].lower() for each in terms() if name in map(str.lower, each.names)
        ),
    )


def test_a_word_of_the_glossary_is_explained_in_any_case():
    found = term_of("Instance Gap")
    assert found is not None
    assert "under other names" in found.meaning
    assert found.meaning.split(";")[0] in answered("explain", "instance gap").stdout
    assert term_of("instance gaps") is None
