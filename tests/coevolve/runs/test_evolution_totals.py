"""The totals are what one counts in the tables of all records."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coevolve.runs.histories import WAITING
from coevolve.runs.lineage import LineageIndex
from protocols.evolution import Admitted, Parked, Refused
from protocols.tasks import Seeded
from tests.random_histories import History


@given(seed=st.integers(0, 2**32))
def test_the_totals_are_the_counts_of_all_signals_candidates_and_tasks(seed: int):
    chance = random.Random(seed)
    history, evolution = History(chance), LineageIndex()
    for message in history.opening():
        evolution.fold(message)
    for number in range(chance.randint(5, 60)):
        for message in history.events(number):
            evolution.fold(message)
    totals = evolution.totals
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


def _kinds(evolution: LineageIndex) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for signal_id, signal in evolution.signals.items():
        settled = evolution.settled.get(signal_id)
        outcome = settled.outcome if settled else WAITING
        counts.setdefault(signal.kind, Counter())[outcome] += 1
    return counts
