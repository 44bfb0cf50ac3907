from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.history.lineage import TOPICS, LineageIndex
from coevolve.journal.fold import in_order
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.evolution import ModelCall
from protocols.journal import Message
from protocols.tasks import Continued
from tests.evolving import (
    admitted,
    candidate,
    made,
    seed,
    settled,
    signal,
    stepped,
    story,
    verdict,
    visit,
    whole_fold,
    write,
)


def folded(messages: Sequence[Message]) -> LineageIndex:
    evolution = LineageIndex()
    for time_ns, message in enumerate(messages):
        evolution.fold(message, time_ns)
    return evolution


def test_a_signal_waits_until_it_is_settled():
    evolution = folded([signal("s1")])
    assert evolution.signal_history("s1").outcome == "waiting"
    evolution.fold(settled("s1"))
    assert evolution.signal_history("s1").outcome == "nothing_found"


def test_the_history_of_a_signal_includes_the_results_on_its_tasks():
    fate = folded(story()).signal_history("s1")
    assert fate.outcome == "synthesized"
    assert fate.time_ns == 4
    assert [each.candidate_id for each in fate.candidates] == ["c1", "c2", "c3"]
    outcomes = [type(each.outcome).__name__ for each in fate.verdicts]
    assert outcomes == ["Admitted", "Parked", "Refused"]
    assert [history.task.task_id for history in fate.tasks] == ["made-1"]
    assert [(each.successes, each.version_max) for each in fate.visits] == [(2, 5), (5, 7)]


def test_groups_of_the_flagged_task_are_split_at_its_signal():
    fate = folded(story()).signal_history("s1")
    assert [each.successes for each in fate.before] == [6, 1]
    assert [each.successes for each in fate.since] == [8]
    about_a_pattern = folded(story()).signal_history("s2")
    assert not about_a_pattern.before
    assert not about_a_pattern.since


def test_a_lineage_goes_from_the_signal_to_the_steps_that_trained_on_the_task():
    lineage = folded(story()).lineage("made-1")
    assert lineage.signal is not None
    assert lineage.signal.signal.signal_id == "s1"
    assert lineage.exploration is not None
    assert lineage.exploration.start == "seed-7"
    assert lineage.candidate is not None
    assert lineage.candidate.candidate_id == "c1"
    assert [type(each.outcome).__name__ for each in lineage.verdicts] == ["Parked", "Admitted"]
    assert [each.successes for each in lineage.probes] == [0, 2]
    assert lineage.history.label == "learnable"
    assert [each.step for each in lineage.history.trained] == [7, 8]
    assert msgspec.json.encode(lineage)


def test_a_seed_task_has_no_lineage_above_it_and_the_signals_about_it_below():
    lineage = folded(story()).lineage("seed-1")
    assert lineage.signal is None
    assert lineage.exploration is None
    assert lineage.candidate is None
    assert lineage.history.label is None
    assert [fate.signal.signal_id for fate in lineage.signals] == ["s1"]


def test_an_unknown_task_raises_key_error():
    with pytest.raises(KeyError):
        folded(story()).lineage("none")


def test_a_lineage_exists_even_if_records_are_missing():
    lineage = folded([made("m", "c", "s")]).lineage("m")
    assert lineage.signal is None
    assert lineage.history.verdict is None


async def test_the_whole_journal_is_folded_in_its_own_order(tmp_path: Path):
    journal = Journal.open(tmp_path)
    try:
        told = [each for each in story() if not isinstance(each, ModelCall)]
        write(journal, [*told, *(visit("seed-1", 3, version=n) for n in range(1200))])
        store = LocalStore(journal)
        sequences = [record.sequence async for record in in_order(store, TOPICS)]
        evolution = await whole_fold(store)
    finally:
        journal.close()
    assert sequences == list(range(1, len(told) + 1201))
    assert [each.step for each in evolution.lineage("made-1").history.trained] == [7, 8]
    assert len(evolution.visits["seed-1"]) == 3 + 1200
    assert evolution.signal_history("s1").time_ns > 0


def test_the_order_of_simultaneous_records_does_not_matter():
    records = [seed(), *story()]
    late = sorted(records, key=lambda message: type(message).__name__)
    one, other = folded(records).lineage("made-1"), folded(late).lineage("made-1")
    assert one.history == other.history
    assert one.candidate == other.candidate


def test_continued_work_counts_for_the_task_that_it_started_with():
    task = made("made", "c", "s")
    origin = Continued(root="made", rollout="g0/1")
    following = msgspec.structs.replace(task, task_id="made/1/ab", origin=origin)
    later = msgspec.structs.replace(visit("made", 5), task_id="made/1/ab")
    evolution = folded(
        [
            signal("s"),
            candidate("c", "s"),
            task,
            verdict("c", "s", admitted("made", 0)),
            following,
            visit("made", 2),
            later,
            stepped(4, "made/1/ab"),
        ]
    )
    assert list(evolution.tasks) == ["made"]
    lineage = evolution.lineage("made")
    assert lineage.candidate == candidate("c", "s")
    assert [each.successes for each in lineage.history.visits] == [2, 5]
    assert [each.step for each in lineage.history.trained] == [4]
