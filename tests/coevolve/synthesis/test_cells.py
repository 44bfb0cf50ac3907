"""Tests of the arms that choose among an environment's cells."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.synthesis.arms import ArmBriefs
from coevolve.synthesis.cells import Cells
from protocols.evolution import SKILL, OnPattern, OnTask
from protocols.learning import Evaluation, TaskScore
from tests.scripted import CONFIG, add, signal, told

SCORED_BY = {"a": "task-a", "b": "task-b", "c": "task-c"}
DRAWS = 3000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


def scored(version: int, success: Mapping[str, float]) -> Evaluation:
    scores = tuple(
        TaskScore(task_id=f"task-{cell}", turns_passed=0, turns_total=1, measures={"likelihood": p})
        for cell, p in success.items()
    )
    return Evaluation(version=version, scores=scores, errors=0, wall_s=1.0)


async def drawn(cells: Cells, before: int) -> Mapping[str, float]:
    rng = random.Random(1)
    counts = Counter([await cells.teaching(rng, before) for _ in range(DRAWS)])
    return {cell: counts[cell] / DRAWS for cell in SCORED_BY}


async def test_coverage_draws_all_cells_alike(store: LocalStore):
    cells = Cells(SCORED_BY, imitates=True, reader=store)
    counts = Counter(cells.covered(random.Random(number)) for number in range(DRAWS))
    assert min(counts[cell] for cell in SCORED_BY) > 0.29 * DRAWS


@pytest.mark.parametrize(
    ("imitates", "left"),
    [(True, {"a": 0.9, "b": 0.5, "c": 0.0}), (False, {"a": 0.09, "b": 0.25, "c": 0.0})],
)
async def test_the_oracle_draws_by_what_is_left_to_learn(
    store: LocalStore, imitates: bool, left: Mapping[str, float]
):
    (sequence,) = await add(store, scored(0, {"a": 0.1, "b": 0.5, "c": 1.0}))
    shares = await drawn(Cells(SCORED_BY, imitates=imitates, reader=store), sequence + 1)
    total = sum(left.values())
    assert shares == pytest.approx({c: w / total for c, w in left.items()}, abs=0.03)


async def test_the_oracle_reads_the_newest_scores_before_its_signal(store: LocalStore):
    first, second = await add(
        store,
        scored(0, {"a": 0.0, "b": 1.0, "c": 1.0}),
        scored(5, {"a": 1.0, "b": 0.0, "c": 1.0}),
    )
    cells = Cells(SCORED_BY, imitates=True, reader=store)
    assert (await drawn(cells, second))["a"] > 0.99
    assert (await drawn(cells, second + 1))["b"] > 0.99
    assert min((await drawn(cells, first)).values()) > 0.29


@pytest.mark.parametrize("arm", ["coverage", "oracle"])
async def test_a_brief_is_about_a_cell_whatever_the_signal_says(store: LocalStore, arm: str):
    config = msgspec.structs.replace(CONFIG, arm=arm)
    subjects = set[object]()
    for number in range(30):
        flagged = signal(f"s{number}", about=OnTask(task_id="x"), evidence=[7])
        briefs = ArmBriefs(config, reader=store, context=told(config), cells=SCORED_BY)
        subject = await briefs.subject(flagged, 99)
        again = ArmBriefs(config, reader=store, context=told(config), cells=SCORED_BY)
        assert await again.subject(flagged, 99) == subject
        assert subject.evidence == ()
        subjects.add(subject.about)
    assert subjects == {OnPattern(kind=SKILL, pattern=cell) for cell in SCORED_BY}
