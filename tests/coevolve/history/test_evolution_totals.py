"""The totals are what one counts in the tables of all records."""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coevolve.history.evolution_totals import EvolutionTotals
from coevolve.history.histories import WAITING
from coevolve.history.lineage import LineageIndex
from protocols.control import RunContinued, RunPaused
from protocols.evolution import Admitted, Parked, Refused, SwapRefused
from protocols.journal import Message
from protocols.tasks import Seeded
from tests.evolving import admitted, called, candidate, settled, story, swapped, verdict
from tests.random_histories import History


@given(seed=st.integers(0, 2**32))
def test_the_totals_are_the_counts_of_all_signals_candidates_and_tasks(seed: int):
    chance = random.Random(seed)
    history, evolution, totals = History(chance), LineageIndex(), EvolutionTotals()
    messages = list(history.opening())
    for number in range(chance.randint(5, 60)):
        messages += history.events(number)
    for message in messages:
        evolution.fold(message)
        totals.fold(message)
    assert totals.kinds() == _kinds(evolution)
    newest = [verdicts[-1] for verdicts in evolution.verdicts.values()]
    gates = [each.outcome.gate for each in newest if isinstance(each.outcome, Refused)]
    assert totals.refusals() == Counter(gates)
    of_each = totals.synthesizers()
    counted = (Admitted, Parked, Refused)
    for place, kind in enumerate(counted):
        found = [(each.admitted, each.parked, each.refused)[place] for each in of_each]
        assert sum(found) == sum(isinstance(each.outcome, kind) for each in newest)
    assert sum(each.candidates for each in of_each) == len(evolution.candidates)
    seeds = sum(isinstance(task.origin, Seeded) for task in evolution.tasks.values())
    assert (totals.seed_tasks, totals.made_tasks) == (seeds, len(evolution.tasks) - seeds)


def counted(messages: Sequence[Message]) -> EvolutionTotals:
    totals = EvolutionTotals()
    for message in messages:
        totals.fold(message)
    return totals


def test_a_synthesizer_is_counted_by_the_newest_verdict_on_each_candidate():
    (totals,) = counted(story()).synthesizers()
    assert (totals.synthesizer, totals.candidates) == ("policy@0", 3)
    assert (totals.admitted, totals.parked, totals.refused) == (1, 1, 1)
    assert totals.gates == {"duplicate": 1}
    assert totals.acceptance == 1 / 3
    assert totals.learnable_share == 1.0
    assert (totals.usage.calls, totals.usage.tokens, totals.usage.cost_usd) == (2, 400, 1.0)
    assert (totals.tokens_per_admitted, totals.cost_usd_per_admitted) == (400, 1.0)
    assert totals.simulator_calls == 24


def test_reading_the_totals_changes_nothing():
    totals = counted(story())
    assert totals.synthesizers() == totals.synthesizers()


def test_a_share_of_zero_candidates_is_none():
    (totals,) = counted([called("s1")]).synthesizers()
    assert totals.acceptance is None
    assert totals.learnable_share is None
    assert totals.tokens_per_admitted is None


def test_a_teachers_calls_belong_to_no_synthesizer():
    taught = replace(called("t1", model="teacher"), purpose="teach", kind="teaching")
    assert counted([taught]).synthesizers() == []


def test_unprobed_tasks_are_admitted_and_neither_learnable_nor_not():
    unprobed = Admitted(task_id="u", label="unprobed", probe_successes=0, probe_rollouts=0)
    verdicts = [verdict("c7", "s", unprobed), verdict("c8", "s", admitted("m", successes=0))]
    (totals,) = counted([*story(), *verdicts]).synthesizers()
    assert (totals.admitted, totals.learnable_share) == (3, 1 / 2)


def test_each_synthesizer_has_its_own_totals():
    totals = counted(
        [
            *story(),
            candidate("c9", "s2", by="glm"),
            verdict("c9", "s2", admitted("made-9", successes=4), by="glm"),
            called("s2", model="glm", tokens=50),
        ]
    )
    one, other = totals.synthesizers()
    assert (one.synthesizer, one.admitted) == ("policy@0", 1)
    assert (other.synthesizer, other.admitted, other.learnable_share) == ("glm", 1, 0.0)
    assert other.tokens_per_admitted == 50


def test_signals_are_counted_by_kind_and_outcome_and_refusals_by_gate():
    totals = counted(
        [
            *story(),
            verdict("c7", "s2", Refused(gate="no_effect", found="")),
            verdict("c8", "s2", Parked(probe_rollouts=4)),
        ]
    )
    assert totals.kinds() == {"forgetting": {"synthesized": 1}, "rare": {"waiting": 1}}
    assert totals.refusals() == {"duplicate": 1, "no_effect": 1}


def test_a_swap_records_both_synthesizers_and_its_time():
    totals = counted([*story(), swapped(), settled("s2", by="policy@0", kind="rare")])
    (swap,) = totals.swaps
    assert (swap.before, swap.after, swap.version) == ("policy@0", "glm", 8)
    assert totals.synthesizer == "glm"
    totals.fold(SwapRefused(request_id="r2", reason="no answer"))
    assert [each.reason for each in totals.refused_swaps] == ["no answer"]


def test_a_pause_lasts_until_the_run_is_continued():
    totals = counted([RunPaused(run_id="r")])
    assert totals.paused
    totals.fold(RunContinued(run_id="r"))
    assert not totals.paused


def _kinds(evolution: LineageIndex) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for signal_id, signal in evolution.signals.items():
        settled = evolution.settled.get(signal_id)
        outcome = settled.outcome if settled else WAITING
        counts.setdefault(signal.kind, Counter())[outcome] += 1
    return counts
