"""Which failures in a row end a part."""

import pytest

from coevolve.runs import part_failures
from coevolve.runs.part_failures import ALIKE, FAILURES, PartFailures
from protocols.errors import CoevolveError, JournalError, PartDiedError, PartRaisedError

DIED, JOURNAL = PartDiedError("killed"), JournalError("the disk broke")
RAISED = [PartRaisedError(f"IndexError: index {n} of '{n}'") for n in range(FAILURES)]


def failures(*errors: CoevolveError) -> PartFailures:
    found = PartFailures()
    for each in errors:
        found.add(each)
    return found


@pytest.mark.parametrize(
    ("errors", "many", "alike", "deaths"),
    [
        ([DIED] * FAILURES, True, False, True),
        ([DIED] * (FAILURES - 1), False, False, False),
        ([*[DIED] * (FAILURES - 1), RAISED[0], DIED], True, False, False),
        (RAISED[:ALIKE], False, True, False),
        (RAISED[: ALIKE - 1], False, False, False),
        ([*RAISED[: ALIKE - 1], DIED, RAISED[0]], False, False, False),
        ([*RAISED[: ALIKE - 1], PartRaisedError("KeyError"), RAISED[0]], False, False, False),
        ([JOURNAL] * FAILURES, True, False, False),
    ],
)
def test_a_part_is_given_up_for_many_failures_or_for_some_of_one_kind(
    errors: list[CoevolveError], many: bool, alike: bool, deaths: bool
):
    found = failures(*errors)
    assert (found.are_many, found.are_alike, found.are_deaths) == (many, alike, deaths)
    found.clear()
    assert (found.are_many, found.are_alike, found.are_deaths) == (False, False, False)


def test_failures_that_are_rare_end_no_part(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(part_failures, "WITHIN_S", 0.0)
    monkeypatch.setattr(part_failures, "ALIKE_WITHIN_S", 0.0)
    found = failures(*RAISED)
    assert (found.are_many, found.are_alike) == (False, False)
