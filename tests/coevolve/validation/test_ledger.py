import asyncio
import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.journal.codec import encode
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.validation.gates import Match
from coevolve.validation.ledger import TOPICS, Ledger
from coevolve.validation.wordings import Wording
from protocols.evolution import Parked, ProbeRequest, Refused
from protocols.journal import Append, Message, Receipt
from tests.evolving import BODY, admission, admitted, made, seed, verdict, visit, write

MOST = 3


class Keys:
    """An index that only knows its keys."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def add(self, key: str, body: msgspec.Raw) -> None:
        self.keys.add(key)

    def discard(self, key: str) -> None:
        self.keys.discard(key)

    def nearest(self, body: msgspec.Raw) -> Match | None:
        raise AssertionError(body)

    def overlapping(self, body: msgspec.Raw) -> Match | None:
        raise AssertionError(body)


async def test_the_index_keeps_seeds_and_the_newest_synthesized_tasks(tmp_path: Path):
    journal = Journal.open(tmp_path)
    admissions = [admission(f"c{number}", "s", f"m{number}") for number in range(6)]
    write(
        journal, [seed("seed-1"), seed("seed-2"), *(each for pair in admissions for each in pair)]
    )
    live, rebuilt = Keys(), Keys()
    ledger = Ledger(LocalStore(journal), live, most_tasks=MOST)
    for pair in admissions:
        ledger.expect(pair)
    assert live.keys == {"m3", "m4", "m5"}
    await Ledger(LocalStore(journal), rebuilt, most_tasks=MOST).follow()
    assert rebuilt.keys == {"seed-1", "seed-2", "m3", "m4", "m5"}
    journal.close()


async def test_records_that_are_added_twice_forget_nothing_more(tmp_path: Path):
    journal = Journal.open(tmp_path)
    index = Keys()
    ledger = Ledger(LocalStore(journal), index, most_tasks=MOST)
    newest = admission("c9", "s", "m9")
    write(journal, [seed(), *admission("c0", "s", "m0"), *admission("c1", "s", "m1")])
    await ledger.follow()
    ledger.expect(newest)
    ledger.expect(newest)
    assert index.keys == {"seed-1", "m0", "m1", "m9"}
    journal.close()


def add(journal: Journal, messages: Sequence[Message], write: int) -> None:
    receipt = Receipt(producer="test", counter=write)
    journal.append(Append(records=tuple(map(encode, messages)), receipt=receipt)).result(10)


async def test_what_is_remembered_does_not_grow_with_the_verdicts(tmp_path: Path):
    journal = Journal.open(tmp_path)
    ledger = Ledger(LocalStore(journal), Keys(), most_tasks=MOST)
    refused = [verdict(f"r{n}", "s", Refused(gate="duplicate", found="?")) for n in range(200)]
    admitted = [each for n in range(200) for each in admission(f"c{n}", "s", f"m{n}")]
    add(journal, [seed(), *refused, *admitted], 1)
    await ledger.follow()
    few = len(msgspec.msgpack.encode(ledger.state))
    add(journal, [each for n in range(200, 400) for each in admission(f"c{n}", "s", f"m{n}")], 2)
    await ledger.follow()
    assert len(msgspec.msgpack.encode(ledger.state)) <= few + 10
    await ledger.recall(["r7", "c7", "c399", "c400"])
    assert [ledger.knows(each) for each in ("r7", "c7", "c399", "c400")] == [True] * 3 + [False]
    journal.close()


async def test_a_probe_that_was_expected_counts_once(tmp_path: Path):
    journal = Journal.open(tmp_path)
    ledger = Ledger(LocalStore(journal), Keys(), most_tasks=MOST)
    for number in range(3):
        asked = probe("c", number)
        ledger.expect([asked])
        add(journal, [asked], number + 1)
        await ledger.follow()
        assert ledger.probes_asked("c") == ledger.probes_since_verdict("c") == number + 1
    assert ledger.state.probe_rollouts == 12
    assert ledger.knows("c")
    ledger.expect([verdict("c", "s", Parked(probe_rollouts=4))])
    assert (ledger.probes_asked("c"), ledger.probes_since_verdict("c")) == (3, 0)
    assert (ledger.parked(), ledger.under_probe()) == (1, 0)
    journal.close()


async def test_an_admission_that_was_expected_counts_once(tmp_path: Path):
    journal = Journal.open(tmp_path)
    ledger = Ledger(LocalStore(journal), Keys(), most_tasks=MOST)
    add(journal, [seed()], 1)
    await ledger.follow()
    newest = admission("c9", "s", "m9")
    assert not ledger.knows("c9")
    ledger.expect(newest)
    ledger.expect(newest)
    assert ledger.knows("c9")
    assert ledger.state.admitted == 1
    add(journal, newest, 2)
    await ledger.follow()
    assert ledger.state.admitted == 1
    journal.close()


OTHER = msgspec.Raw(msgspec.msgpack.encode("another body"))


def meaning(body: msgspec.Raw) -> Sequence[Wording]:
    """Return one wording for all tasks, which means something else in each body."""
    return (Wording("Do it.", bytes(body).hex(), 0),)


async def test_the_runs_own_tasks_decide_about_a_wording_also_after_a_restart(tmp_path: Path):
    journal = Journal.open(tmp_path)
    store = LocalStore(journal)
    ledger = Ledger(store, Keys(), MOST, span=1, wordings=meaning)
    other = msgspec.structs.replace(made("m0", "c0", "s"), body=OTHER)
    add(journal, [seed(), other], 1)
    await ledger.follow()
    for number in (2, 3):
        add(journal, await ledger.snapshots.due(ledger.through), number)
        await ledger.follow()
    resumed = Ledger(store, Keys(), MOST, span=1, wordings=meaning)
    await resumed.follow()
    assert (await resumed.snapshots.restore())[1]
    for each in (ledger, resumed):
        conflict = each.conflict(OTHER)
        assert conflict is not None
        assert (conflict.trusted, conflict.tasks) == (True, 1)
        assert each.conflict(BODY) is None  # as in the run's own task, whatever a made one says
    journal.close()


@pytest.mark.parametrize(("rollouts", "has_room"), [(35, False), (36, True)])
async def test_the_share_of_probes_is_of_all_rollouts_of_the_policy(
    tmp_path: Path, rollouts: int, has_room: bool
):
    journal = Journal.open(tmp_path)
    ledger = Ledger(LocalStore(journal), Keys(), most_tasks=MOST)
    taught = msgspec.structs.replace(visit("seed-1", 8, rollouts=1000), author="teacher")
    ledger.expect([taught, visit("seed-1", 3, rollouts=rollouts)])
    # With these four, probes are 4 of 39 or of 40.
    assert ledger.has_room_for_probes(4, 0.1) == has_room
    journal.close()


def probe(candidate_id: str, number: int) -> ProbeRequest:
    return ProbeRequest(
        probe_id=f"{candidate_id}/{number}",
        candidate_id=candidate_id,
        body=BODY,
        rollouts=4,
        seed=number,
        policy_version_at_least=0,
    )


def random_records(chance: random.Random) -> Iterator[Message]:
    """Yield what may become of 12 candidates."""
    for number in range(chance.randint(1, 60)):
        candidate = f"c{chance.randrange(12)}"
        match chance.choice(["seed", "probe", "probe", "visit", "parked", "refused", "admitted"]):
            case "seed":
                yield seed(f"seed-{number}")
            case "probe":
                yield probe(candidate, number)
            case "visit":
                yield visit("seed-0", 0, number)
            case "parked":
                yield verdict(candidate, "s", Parked(probe_rollouts=4))
            case "refused":
                yield verdict(candidate, "s", Refused(gate="duplicate", found="?"))
            case _:
                task, _ = admission(candidate, "s", f"m-{candidate}")
                outcome = admitted(task.task_id, chance.choice([0, 2, 4]))
                yield from (task, verdict(candidate, "s", outcome))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_ledger_from_a_snapshot_is_that_of_all_records(seed: int):
    asyncio.run(_random_run(random.Random(seed)))


async def _random_run(chance: random.Random) -> None:
    with TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        store, writes = LocalStore(journal), count(1)

        async def append(*messages: Message) -> None:
            receipt = Receipt(producer="test", counter=next(writes))
            await store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

        working = Ledger(store, Keys(), MOST, span=1)
        for message in random_records(chance):
            await append(message)
            if chance.random() < 0.2:
                working.expect([message])
                await working.follow()
                await append(*await working.snapshots.due(working.through))
        resumed, whole = Keys(), Keys()
        ledger = Ledger(store, resumed, MOST, span=1)
        await ledger.follow()
        reread = Ledger(store, whole, MOST)
        await fold(store, TOPICS, reread.fold)
        journal.close()
    assert ledger.state == reread.state
    assert resumed.keys == whole.keys
