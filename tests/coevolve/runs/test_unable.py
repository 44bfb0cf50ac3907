"""Runs that cannot make a rollout end with the reason; others go on."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.parts.attempts import KILLED
from coevolve.runs import unable
from coevolve.runs.part_failures import kind_of
from coevolve.runs.unable import AT_START, GROUPS, MIXED_AT_START, Failing, until_unable
from protocols.control import PartFailed
from protocols.errors import UnableError
from protocols.journal import Message
from protocols.rollouts import FailedRollout
from tests.coevolve.signals.histories import rollout

PATIENCE_S = 80.0


def failed(group: int, reason: str, task_id: str = "task") -> FailedRollout:
    return FailedRollout(
        group_id=f"g{group}",
        group=group,
        index=0,
        group_size=2,
        task_id=task_id,
        reason=reason,
        tries=3,
    )


def verdict(
    failures: Sequence[FailedRollout | PartFailed], after_s: float, *, at_start: bool = True
) -> str:
    failing = Failing(at_start=at_start)
    for each in failures:
        failing.fold(each, 0.0)
    return failing.verdict(PATIENCE_S, after_s)


@pytest.mark.parametrize(
    "reasons",
    [
        ["TemplateError: System role not supported"] * 3,
        [f"task t-{n}: found {470 + n} tokens" for n in range(3)],
        [f"KeyError: '{name}'" for name in ("a", "b", "c")],
        [f"simulator-{n}: no answer from the child within 3{n}.5 s" for n in range(3)],
    ],
)
def test_groups_that_all_fail_for_one_reason_end_a_run_at_its_start(reasons: list[str]):
    failures = [failed(group, reason) for group, reason in enumerate(reasons)]
    assert verdict(failures, PATIENCE_S / AT_START - 1) == ""
    said = verdict(failures, PATIENCE_S / AT_START)
    assert f"all 3 since the start, in 3 groups, failed for this reason: {reasons[-1]}" in said


def test_a_task_of_its_own_name_in_each_reason_makes_no_other_reason():
    names = ("ada", "bob", "cyd")
    failures = [failed(n, f"task {name}: no world", name) for n, name in enumerate(names)]
    assert verdict(failures, PATIENCE_S / AT_START)


def test_fewer_groups_may_be_the_fault_of_one_task():
    assert not verdict([failed(group, "no") for group in range(GROUPS - 1)] * 9, 100 * PATIENCE_S)


def test_a_run_that_worked_and_one_with_several_reasons_get_more_patience():
    alike = [failed(group, "no") for group in range(4)]
    mixed = [failed(group, f"no {'abcd'[group]}") for group in range(4)]
    assert not verdict(alike, PATIENCE_S - 1, at_start=False)
    assert "since the last rollout" in verdict(alike, PATIENCE_S, at_start=False)
    assert not verdict(mixed, PATIENCE_S / MIXED_AT_START - 1)
    assert "all 4 since the start, in 4 groups, failed; 1 of them" in verdict(
        mixed, PATIENCE_S / MIXED_AT_START
    )


def test_a_reason_of_exactly_half_of_the_failures_has_no_majority():
    halves = [failed(group, f"no {'ab'[group % 2]}") for group in range(4)]
    assert not verdict(halves, PATIENCE_S / MIXED_AT_START - 1)
    assert verdict([*halves, failed(4, "no a")], PATIENCE_S / AT_START)


def test_an_engine_that_dies_at_each_attempt_is_told_with_its_own_error():
    died = PartFailed(part="rollout-0", reason="IndexError: index out of range in self")
    said = verdict([died, *(failed(group, KILLED) for group in range(3))], PATIENCE_S)
    assert "IndexError: index out of range in self" in said


def test_kinds_differ_in_words_only():
    assert kind_of("needs 3 of 'x'") == kind_of("needs 14 of 'y'")
    assert kind_of("needs 3 of 'x'") != kind_of("has 3 of 'x'")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    yield journal
    journal.close()


async def ended(journal: Journal, records: Sequence[Message], patience_s: float) -> bool:
    """Return whether a run ends if its journal gets ``records`` again and again."""
    store = LocalStore(journal)
    mailbox = Mailbox(store, consumer="test", topics=(), member="test", lease_s=30)
    watching = asyncio.create_task(until_unable(store, store, 0, patience_s))
    try:
        for _ in range(100):
            await mailbox.append(records)
            await asyncio.sleep(0.01)
            if watching.done():
                with pytest.raises(UnableError, match="remove its cause first"):
                    await watching
                return True
        return False
    finally:
        watching.cancel()


async def test_a_run_that_made_a_rollout_is_not_at_its_start_any_more(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unable, "LOOK_S", 0.01)
    failures = [failed(group, "the world does not load") for group in range(5)]
    assert await ended(journal, failures, 4.0)
    mailbox = Mailbox(LocalStore(journal), consumer="t", topics=(), member="t", lease_s=30)
    await mailbox.append([rollout(9, 0)])
    assert not await ended(journal, failures, 4.0)


async def test_a_run_ends_if_all_fail_and_goes_on_with_a_single_rollout_among_them(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unable, "LOOK_S", 0.01)
    failures = [failed(group, "the world does not load") for group in range(5)]
    assert not await ended(journal, failures, 0.0)
    assert not await ended(journal, [*failures, rollout(9, 0)], 0.5)
    assert await ended(journal, failures, 0.5)
