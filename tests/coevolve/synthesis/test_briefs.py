from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.synthesis.brief import tool_context
from coevolve.environments.tools.task import read_body
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.synthesis.briefs import BriefWriter, Subject, seed_of
from protocols.errors import JournalError, LeakError
from protocols.evolution import OnPattern, OnTask
from protocols.journal import StoredRecord
from protocols.synthesis import Anything, Attempt
from protocols.tasks import Task, body_of
from tests.scripted import CONFIG, add, rollout, signal, task, told

CANARY = "kestrel"
ON_TASK = OnTask(task_id="t")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    yield LocalStore(journal)
    journal.close()


class Forgetful(LocalStore):
    """A journal whose retention deleted some records."""

    def __init__(self, journal: Journal, gone: set[int]) -> None:
        super().__init__(journal)
        self._gone = gone

    async def read(self, sequences: "list[int]") -> "list[StoredRecord]":  # type: ignore[override]
        if self._gone.intersection(sequences):
            raise JournalError("it was evicted")
        return list(await super().read(sequences))


def writer(reader: LocalStore, **changes: object) -> BriefWriter:
    config = msgspec.structs.replace(CONFIG, **changes)
    return BriefWriter(config, reader=reader, context=told(config))


def marked(made: Task) -> Task:
    """Return the task with a reference, and results, that contain the canary word."""
    turns = tuple(
        msgspec.structs.replace(turn, reference=(f"mkdir('{CANARY}')",), results=(CANARY,))
        for turn in read_body(made.body).turns
    )
    return msgspec.structs.replace(
        made, body=body_of(msgspec.structs.replace(read_body(made.body), turns=turns))
    )


async def test_a_brief_on_a_task_tells_its_instructions_its_world_and_the_attempts(
    store: LocalStore,
):
    _, *evidence = await add(
        store, task(), rollout(said="ls()"), rollout(said="pwd()", passed=True)
    )
    flagged = signal("s", version=7, evidence=evidence)
    brief = await writer(store).brief(flagged, Subject(about=ON_TASK, evidence=tuple(evidence)))
    assert (brief.signal_id, brief.kind, brief.about) == ("s", "forgetting", ON_TASK)
    assert tool_context(brief).instructions == ("do t", "then t")
    assert [(a.actions[0].text, a.succeeded) for a in brief.attempts] == [
        ("ls()", False),
        ("pwd()", True),
    ]
    assert brief.attempts[0] == Attempt(
        actions=rollout().actions, succeeded=False, turns_passed=0, ended="wrong"
    )
    assert brief.attempts[1].ended == "finished"
    assert tool_context(brief).starts[0].origin == "t"
    assert (len(tool_context(brief).starts), brief.steps, brief.policy_version) == (3, 5, 7)


async def test_without_a_task_every_start_is_fresh(store: LocalStore):
    for about in (OnPattern(kind="tool", pattern="mv"), Anything()):
        brief = await writer(store).brief(signal("s"), Subject(about=about, evidence=()))
        origins = {start.origin for start in tool_context(brief).starts}
        assert len(origins) == 3
        assert all(origin.startswith("start:") for origin in origins)
        assert (tool_context(brief).instructions, brief.attempts) == ((), ())


async def test_the_same_journal_gives_the_same_brief_and_another_seed_another(store: LocalStore):
    await add(store, task())
    subject = Subject(about=ON_TASK, evidence=())
    first = await writer(store).brief(signal("s"), subject)
    assert await writer(store).brief(signal("s"), subject) == first
    other_run = await writer(store, seed=1).brief(signal("s"), subject)
    other_signal = await writer(store).brief(signal("s2"), subject)
    assert len({brief.seed for brief in (first, other_run, other_signal)}) == 3
    assert len({tool_context(brief).starts[1] for brief in (first, other_run, other_signal)}) == 3


def test_seeds_are_the_same_in_every_process():
    assert seed_of(0, "s", "brief") == 1069658760
    assert all(0 <= seed_of(0, f"s{n}", "brief") < 2**31 for n in range(100))


async def test_rollouts_deleted_by_retention_are_left_out(tmp_path: Path):
    journal = Journal.open(tmp_path / "store")
    _, *evidence = await add(
        LocalStore(journal), task(), *(rollout(said=f"cd('{n}')") for n in range(3))
    )
    reader = Forgetful(journal, gone={evidence[0], evidence[2]})
    subject = Subject(about=ON_TASK, evidence=tuple(evidence))
    brief = await writer(reader).brief(signal("s"), subject)
    assert [attempt.actions[0].text for attempt in brief.attempts] == ["cd('1')"]
    journal.close()


async def test_no_word_of_a_reference_is_in_a_brief(store: LocalStore):
    assert CANARY.encode() in msgspec.msgpack.encode(marked(task()))
    _, evidence = await add(store, marked(task()), rollout())
    brief = await writer(store).brief(signal("s"), Subject(about=ON_TASK, evidence=(evidence,)))
    assert CANARY.encode() not in msgspec.msgpack.encode(brief)


async def test_a_held_out_task_is_never_in_a_brief(store: LocalStore):
    _, evidence = await add(store, task("secret", split="held_out"), rollout("secret"))
    flagged = OnTask(task_id="secret")
    with pytest.raises(LeakError, match="'secret' of the split held_out"):
        await writer(store).brief(signal("s"), Subject(about=flagged, evidence=()))
    pattern = OnPattern(kind="tool", pattern="ls")
    with pytest.raises(LeakError, match="'secret' of the split held_out"):
        await writer(store).brief(signal("s"), Subject(about=pattern, evidence=(evidence,)))
