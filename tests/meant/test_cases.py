"""Tests that the planted cases are what they are said to be."""

from collections import Counter
from typing import get_args

import pytest

from coevolve.environments.tools.trial import TrialRun
from tests.meant.cases import GOOD, Suite, cases


@pytest.mark.parametrize("suite", get_args(Suite))
def test_there_are_twenty_cases_of_each_of_sixteen_kinds_and_a_hundred_good_ones(
    suite: Suite,
) -> None:
    found = Counter(case.kind for case in cases(suite))
    assert found.pop(GOOD) >= 100
    assert len(found) >= 16
    assert min(found.values()) >= 20


@pytest.mark.parametrize("suite", get_args(Suite))
def test_every_reference_works_so_that_only_the_meaning_can_be_wrong(suite: Suite) -> None:
    found = list(cases(suite, worlds=1))
    assert len(found) > 100
    for case in found:
        tried = TrialRun(case.body, [turn.reference for turn in case.body.turns]).play()
        failed = [each for turn in tried.turns for each in turn.observed if each.failed]
        assert not failed, case
