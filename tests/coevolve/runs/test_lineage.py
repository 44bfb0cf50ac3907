from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.fold import in_order
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.runs.lineage import TOPICS, LineageIndex
from protocols.control import RunContinued, RunPaused
from protocols.evolution import Parked, Refused, SwapRefused
from protocols.journal import Message
from protocols.tasks import Continued
from tests.evolving import (
    admitted,
    called,
    candidate,
    made,
    seed,
    settled,
    signal,
    stepped,
    story,
    swapped,
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
    assert evolution.fate("s1").outcome == "waiting"
    evolution.fold(settled("s1"))
    assert evolution.fate("s1").outcome == "nothing_found"


def test_the_history_of_a_signal_includes_the_results_on_its_tasks():
    fate = folded(story()).fate("s1")
    assert fate.outcome == "synthesized"
    assert fate.time_ns == 4
    assert [each.candidate_id for each in fate.candidates] == ["c1", "c2", "c3"]
    outcomes = [type(each.outcome).__name__ for each in fate.verdicts]
    assert outcomes == ["Admitted", "Parked", "Refused"]
    assert [history.task.task_id for history in fate.tasks] == ["made-1"]
    assert [(each.successes, each.version_max) for each in fate.visits] == [(2, 5), (5, 7)]


def test_groups_of_the_flagged_task_are_split_at_its_signal():
    fate = folded(story()).fate("s1")
    assert [each.successes for each in fate.before] == [6, 1]
    assert [each.successes for each in fate.since] == [8]
    about_a_pattern = folded(story()).fate("s2")
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


def test_a_synthesizer_is_counted_by_the_newest_verdict_on_each_candidate():
    (totals,) = folded(story()).totals.synthesizers()
    assert (totals.synthesizer, totals.candidates) == ("policy@0", 3)
    assert (totals.admitted, totals.parked, totals.refused) == (1, 1, 1)
    assert totals.gates == {"duplicate": 1}
    assert totals.acceptance == 1 / 3
    assert totals.learnable_share == 1.0
    assert (totals.usage.calls, totals.usage.tokens, totals.usage.cost_usd) == (2, 400, 1.0)
    assert (totals.tokens_per_admitted, totals.cost_usd_per_admitted) == (400, 1.0)
    assert totals.simulator_calls == 24


def test_reading_the_totals_changes_nothing():
    evolution = folded(story())
    assert evolution.totals.synthesizers() == evolution.totals.synthesizers()


def test_a_share_of_zero_candidates_is_none():
    (totals,) = folded([called("s1")]).totals.synthesizers()
    assert totals.acceptance is None
    assert totals.learnable_share is None
    assert totals.tokens_per_admitted is None


def test_each_synthesizer_has_its_own_totals():
    evolution = folded(
        [
            *story(),
            candidate("c9", "s2", by="glm"),
            verdict("c9", "s2", admitted("made-9", successes=4), by="glm"),
            called("s2", model="glm", tokens=50),
        ]
    )
    one, other = evolution.totals.synthesizers()
    assert (one.synthesizer, one.admitted) == ("policy@0", 1)
    assert (other.synthesizer, other.admitted, other.learnable_share) == ("glm", 1, 0.0)
    assert other.tokens_per_admitted == 50


def test_signals_are_counted_by_kind_and_outcome_and_refusals_by_gate():
    evolution = folded(
        [
            *story(),
            verdict("c7", "s2", Refused(gate="no_effect", found="")),
            verdict("c8", "s2", Parked(probe_rollouts=4)),
        ]
    )
    assert evolution.totals.kinds() == {"forgetting": {"synthesized": 1}, "rare": {"waiting": 1}}
    assert evolution.totals.refusals() == {"duplicate": 1, "no_effect": 1}


def test_a_swap_records_both_synthesizers_and_its_time():
    evolution = folded([*story(), swapped(), settled("s2", by="policy@0", kind="rare")])
    (swap,) = evolution.totals.swaps
    assert (swap.before, swap.after, swap.version) == ("policy@0", "glm", 8)
    assert evolution.totals.synthesizer == "glm"
    evolution.fold(SwapRefused(request_id="r2", reason="no answer"))
    assert [each.reason for each in evolution.totals.refused_swaps] == ["no answer"]


def test_a_pause_lasts_until_the_run_is_continued():
    evolution = folded([RunPaused(run_id="r")])
    assert evolution.totals.paused
    evolution.fold(RunContinued(run_id="r"))
    assert not evolution.totals.paused


async def test_the_whole_journal_is_folded_in_its_own_order(tmp_path: Path):
    journal = Journal.open(tmp_path)
    try:
        write(journal, [*story(), *(visit("seed-1", 3, version=n) for n in range(1200))])
        store = LocalStore(journal)
        sequences = [record.sequence async for record in in_order(store, TOPICS)]
        evolution = await whole_fold(store)
    finally:
        journal.close()
    assert sequences == list(range(1, len(story()) + 1201))
    assert [each.step for each in evolution.lineage("made-1").history.trained] == [7, 8]
    assert len(evolution.visits["seed-1"]) == 3 + 1200
    assert evolution.fate("s1").time_ns > 0


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
