"""Shares of the newest rollouts, and a warning where edited histories broke much off."""

from pathlib import Path

import msgspec
import pytest

from coevolve.history.traffic import RecentTraffic, recent_traffic, traffic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.signals.groups import summary_of
from protocols.evolution import GroupSummary
from protocols.rollouts import NO_TRAFFIC, Traffic
from tests import evolving
from tests.learning import rollout, talking, tokens

HELPED = Traffic(branches={"another opening": 2}, notes={"white space": 5}, retries=3)
BROKEN = Traffic(branches={"the text of the policy was edited": 1}, broken_tokens=3)


def group(number: int, *traffics: Traffic) -> GroupSummary:
    members = [
        msgspec.structs.replace(
            talking(tokens(4, 6), *(tokens(2, 2) for _ in range(sum(each.branches.values())))),
            traffic=each,
            group=number,
        )
        for each in traffics
    ]
    return summary_of(list(enumerate(members, 1)), root="t1", calls=0)


def test_a_rollout_counts_once_for_each_thing_that_happened_in_it() -> None:
    found = traffic_of([group(1, HELPED, NO_TRAFFIC), group(2, HELPED, NO_TRAFFIC)])
    assert (found.rollouts, found.conversations, found.broken_tokens) == (4, 8, 0)
    assert found.lines() == [
        "endpoint, shares of the last 4 rollouts, with 2.00 conversations each; further "
        "conversations by: another opening 50.0%; changed without effect: white space 50.0%; "
        "sent again: retries 50.0%"
    ]


def test_much_that_was_broken_off_is_a_warning() -> None:
    few = traffic_of([group(1, BROKEN, *([NO_TRAFFIC] * 10))])
    much = traffic_of([group(1, BROKEN, *([NO_TRAFFIC] * 5))])
    assert few.broken_share == pytest.approx(3 / 68)
    assert not [line for line in few.lines() if "WARNING" in line]
    assert much.broken_share == pytest.approx(3 / 38)
    assert much.lines()[0].startswith("WARNING: 8% of the sampled tokens are in conversations")


def test_a_run_without_endpoint_says_nothing() -> None:
    assert traffic_of([group(1, NO_TRAFFIC, NO_TRAFFIC)]).lines() == []
    assert RecentTraffic().lines() == []


def test_only_the_newest_thousand_rollouts_count() -> None:
    groups = [group(number, *([HELPED] * 8)) for number in range(10)]
    groups += [group(number, *([NO_TRAFFIC] * 8)) for number in range(10, 200)]
    found = traffic_of(groups)
    assert found.rollouts == 1000
    assert found.lines() == []


async def test_the_journal_tells_the_newest_rollouts(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal")
    evolving.write(journal, [group(1, HELPED, BROKEN)])
    found = await recent_traffic(LocalStore(journal))
    journal.close()
    assert (found.rollouts, found.conversations) == (2, 5)
    assert rollout(1, 0, size=2).traffic == NO_TRAFFIC
