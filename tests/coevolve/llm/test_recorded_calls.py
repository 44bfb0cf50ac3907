import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.snapshots import SPAN
from coevolve.llm.call_totals import call_snapshots
from coevolve.llm.recorded_calls import (
    Budget,
    JournalCallLog,
    Ledger,
    recorded_calls,
)
from protocols.errors import OverBudgetError
from protocols.evolution import CallKind, ModelCall, SignalKind
from protocols.evolution_config import SynthesizerConfig
from tests.scripted import add


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


def call(
    ordinal: int = 0,
    *,
    signal_id: str = "s",
    model: str = "glm",
    kind: SignalKind = "rare",
    tokens: int = 100,
    cost_usd: float = 0.0,
) -> ModelCall:
    return ModelCall(
        signal_id=signal_id,
        ordinal=ordinal,
        purpose="explore",
        kind=kind,
        model=model,
        prompt="?",
        answer="!",
        prompt_tokens=tokens - 10,
        answer_tokens=10,
        cost_usd=cost_usd,
        wall_s=0.1,
    )


def log(store: LocalStore, ledger: Ledger, kind: CallKind = "rare") -> JournalCallLog:
    return JournalCallLog(
        "s", kind, "glm", ledger=ledger, reader=store, append=lambda calls: add(store, *calls)
    )


def ledger(store: LocalStore, **limits: object) -> Ledger:
    return Ledger(Budget.of_synthesizer(msgspec.convert(limits, SynthesizerConfig)), store)


async def test_a_budget_starts_from_a_snapshot_of_the_calls_so_far(store: LocalStore):
    snapshots = call_snapshots(store)
    await snapshots.restore()
    taught = msgspec.structs.replace(call(2, tokens=900), purpose="teach")
    await add(store, call(0, tokens=300), call(1, tokens=200, kind="boundary"), taught)
    await add(store, *await snapshots.due(SPAN))
    await add(store, call(3, tokens=100))
    limited = ledger(store, max_tokens=700, max_tokens_by_kind={"rare": 450})
    await limited.reserve("rare", 50, 0.0)
    with pytest.raises(OverBudgetError, match=r"max_tokens_by_kind.rare: .* 400 are used"):
        await limited.reserve("rare", 51, 0.0)
    with pytest.raises(OverBudgetError, match=r"max_tokens: .* 600 are used"):
        await limited.reserve("boundary", 101, 0.0)


@pytest.mark.parametrize(("teaches", "spent_usd"), [(False, 0.5), (True, 0.7)])
async def test_a_snapshot_has_the_costs_of_each_purpose(
    store: LocalStore, teaches: bool, spent_usd: float
):
    snapshots = call_snapshots(store)
    await snapshots.restore()
    calls = [call(n, cost_usd=cost) for n, cost in enumerate((0.2, 0.3))]
    taught = [
        msgspec.structs.replace(call(n, cost_usd=cost), purpose="teach")
        for n, cost in enumerate((0.3, 0.4))
    ]
    await add(store, *calls, *taught)
    await add(store, *await snapshots.due(SPAN))
    book = Ledger(Budget(section="s", max_cost_usd=1.0, teaches=teaches), store)
    with pytest.raises(OverBudgetError, match=f"{spent_usd:g} are used"):
        await book.reserve("rare", 1, 1.001 - spent_usd)
    await book.reserve("rare", 1, 1.0 - spent_usd)


async def test_a_newer_snapshot_counts_no_call_twice(store: LocalStore):
    snapshots = call_snapshots(store)
    await snapshots.restore()
    book = ledger(store, max_tokens=700)
    async with log(store, book) as calls:
        for ordinal in range(2):
            await calls.allow(90, 10, 0.0)
            await calls.note(call(ordinal))
    await add(store, call(2, tokens=200))
    await add(store, *await snapshots.due(SPAN))
    with pytest.raises(OverBudgetError, match="400 are used"):
        await book.reserve("rare", 301, 0.0)
    await book.reserve("rare", 300, 0.0)


async def test_a_recorded_call_is_found_by_its_signal_its_model_and_its_number(store: LocalStore):
    await add(store, call(0), call(1, model="other"), call(1, signal_id="t"), call(2))
    calls = log(store, ledger(store))
    assert [await calls.recorded(n) for n in range(4)] == [call(0), None, call(2), None]


async def test_the_calls_of_a_policy_are_its_own_in_every_version(store: LocalStore):
    await add(store, call(0, model="policy@3"), call(1, model="policy@4"))
    found = await recorded_calls(store, "s", "policy@5")
    assert [found[n].model for n in range(2)] == ["policy@3", "policy@4"]


async def test_a_noted_call_is_found_by_the_next_log(store: LocalStore):
    async with log(store, ledger(store)) as calls:
        await calls.allow(90, 10, 0.0)
        await calls.note(call(0))
    assert await log(store, ledger(store)).recorded(0) == call(0)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_tokens": 250}, "synthesizer.max_tokens: the limit of the run is 250; 200 are used"),
        (
            {"max_cost_usd": 0.5},
            "synthesizer.max_cost_usd: the limit of the run is 0.5; 0.4 are used",
        ),
        (
            {"max_tokens_by_kind": {"rare": 250}},
            "synthesizer.max_tokens_by_kind.rare: the limit of the run",
        ),
    ],
)
async def test_a_restarted_process_goes_on_counting(
    store: LocalStore, limits: dict[str, object], words: str
):
    await add(store, call(0, cost_usd=0.2), call(1, cost_usd=0.2))
    with pytest.raises(OverBudgetError, match=words):
        await log(store, ledger(store, **limits)).allow(90, 10, 0.2)


async def test_the_budget_of_a_kind_leaves_the_others_alone(store: LocalStore):
    book = ledger(store, max_tokens_by_kind={"rare": 250})
    await add(store, call(0), call(1))
    await log(store, book, "boundary").allow(90, 10, 0.0)
    await log(store, book).allow(40, 10, 0.0)


async def test_a_teacher_and_synthesizers_have_budgets_of_their_own(store: LocalStore):
    taught = msgspec.structs.replace(call(0), purpose="teach", kind="teaching")
    await add(store, taught, call(0), call(1))
    teachers = Ledger(Budget(section="environment.teacher", max_tokens=250, teaches=True), store)
    await log(store, teachers, "teaching").allow(90, 10, 0.0)
    with pytest.raises(OverBudgetError, match=r"environment\.teacher\.max_tokens: .* 100 are used"):
        await log(store, teachers, "teaching").allow(190, 10, 0.0)
    with pytest.raises(OverBudgetError, match=r"synthesizer\.max_tokens: .* 200 are used"):
        await log(store, ledger(store, max_tokens=250)).allow(90, 10, 0.0)


async def test_calls_of_another_process_count_as_soon_as_they_are_recorded(store: LocalStore):
    book = ledger(store, max_tokens=250)
    async with log(store, book) as calls:
        await calls.allow(90, 10, 0.0)
        await calls.note(call(0))
        await add(store, call(1))
        with pytest.raises(OverBudgetError, match="200 are used"):
            await calls.allow(90, 10, 0.0)
        await calls.allow(40, 10, 0.0)


async def test_an_exact_fit_is_allowed(store: LocalStore):
    book = ledger(store, max_cost_usd=0.3)
    async with log(store, book) as calls:
        for ordinal in range(3):
            await calls.allow(90, 10, 0.1)
            await calls.note(call(ordinal, cost_usd=0.1))


async def test_calls_made_at_the_same_time_never_exceed_the_budget(store: LocalStore):
    book = ledger(store, max_tokens=1000)
    in_flight = most = made = 0

    async def ask(number: int) -> None:
        nonlocal in_flight, most, made
        async with log(store, book) as calls:
            await calls.allow(190, 10, 0.0)
            in_flight += 200
            most = max(most, made + in_flight)
            await asyncio.sleep(0.001 * (number % 3))
            in_flight -= 200
            made += 100
            await calls.note(call(number, tokens=100))

    outcomes = await asyncio.gather(*map(ask, range(20)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, OverBudgetError)]
    assert most <= 1000
    # The last call is made when 800 are used: 200 more are allowed, and it uses 100.
    assert (made, len(refused)) == (900, 11)


async def test_the_reservations_of_failed_calls_are_released(store: LocalStore):
    book = ledger(store, max_tokens=200)
    for _ in range(3):
        async with log(store, book) as calls:
            await calls.allow(90, 10, 0.0)
            await calls.allow(90, 10, 0.0)


async def test_whichever_call_ends_first_enough_stays_reserved(store: LocalStore):
    book = ledger(store, max_tokens=1000)
    async with log(store, book) as calls:
        await calls.allow(790, 10, 0.0)
        await calls.allow(90, 10, 0.0)
        await calls.note(call(1, tokens=50))
        waiting = asyncio.create_task(calls.allow(290, 10, 0.0))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await calls.note(call(0, tokens=600))
        await asyncio.wait_for(waiting, 10.0)
