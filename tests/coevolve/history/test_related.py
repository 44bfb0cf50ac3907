"""What the index finds about single tasks and signals is what a fold of all records says."""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.history.related import Related
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.interfaces import Reader
from protocols.tasks import Continued
from tests.evolving import made, seed, whole_fold, write
from tests.random_histories import History


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lineages_are_those_of_a_fold_of_all_records(seed: int):
    chance = random.Random(seed)
    history = History(chance)
    messages = list(history.opening())
    for number in range(chance.randint(5, 60)):
        messages += history.events(number)
    with TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        write(journal, messages)
        asyncio.run(_compare(LocalStore(journal), history))
        journal.close()


async def _compare(reader: Reader, history: History) -> None:
    whole, all_signals = await whole_fold(reader), Related(reader)
    for task in history.tasks:
        related = Related(reader)
        assert await related.add_lineage(task)
        assert related.index().lineage(task) == whole.lineage(task)
    for signal in history.signals:
        await all_signals.add_signal(signal)
    index = all_signals.index()
    assert [index.signal_history(each) for each in history.signals] == [
        *map(whole.signal_history, history.signals)
    ]


@pytest.mark.parametrize("task", ["none", "seed-1/1/ab"])
async def test_neither_an_unknown_task_nor_one_that_continues_another_has_a_lineage(
    task: str, tmp_path: Path
):
    origin = Continued(root="seed-1", rollout="g0/1")
    following = msgspec.structs.replace(made("seed-1/1/ab", "", ""), origin=origin)
    journal = Journal.open(tmp_path)
    write(journal, [seed("seed-1"), following])
    related = Related(LocalStore(journal))
    assert await related.add_lineage("seed-1")
    assert not await related.add_lineage(task)
    journal.close()
