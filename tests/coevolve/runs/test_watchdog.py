import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coevolve.history.passing import Passing
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.runs.watchdog import watch
from protocols.control import PartFailed, RunContinued, RunPaused, Stalled
from protocols.errors import JournalError
from protocols.interfaces import Store
from tests.coevolve.signals.histories import failed, rollout
from tests.evolving import discarded
from tests.fakes import ScriptPart

QUIET_S = 0.1

CIRCLE = (failed(1, 0), discarded(1))
"""Records of a group whose rollouts all failed."""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    yield journal
    journal.close()


async def test_a_paused_run_is_not_reported_as_stalled_but_a_resumed_one_is(journal: Journal):
    store = LocalStore(journal)
    mailbox = Mailbox(store, consumer="attach", topics=(), member="attach", lease_s=30)
    alarms: list[Stalled] = []
    called = asyncio.Event()

    async def alarm(stalled: Stalled) -> None:
        alarms.append(stalled)
        called.set()

    await mailbox.append([RunPaused(run_id="r")])
    watching = asyncio.create_task(
        watch(lambda: [ScriptPart("learner", [])], store, QUIET_S, alarm)
    )
    try:
        await asyncio.sleep(5 * QUIET_S)
        assert not alarms
        await mailbox.append([RunContinued(run_id="r")])
        async with asyncio.timeout(10):
            await called.wait()
    finally:
        watching.cancel()
    assert alarms[0].quiet_s >= QUIET_S
    assert alarms[0].waiting == ("learner waits for complete groups (5 of 8), 7 s",)


async def alarms_of(store: Store, count: int) -> list[Stalled]:
    """Return the first alarms of a run that does nothing but record its alarms."""
    mailbox = Mailbox(store, consumer="launch", topics=(), member="launch", lease_s=30)
    alarms: list[Stalled] = []
    enough = asyncio.Event()

    async def alarm(stalled: Stalled) -> None:
        alarms.append(stalled)
        with contextlib.suppress(JournalError):
            await mailbox.append([stalled, PartFailed(part="learner", reason="again")])
        if len(alarms) >= count:
            enough.set()

    watching = asyncio.create_task(watch(lambda: [], store, QUIET_S, alarm))
    try:
        async with asyncio.timeout(20):
            await enough.wait()
    finally:
        watching.cancel()
    return alarms


async def test_neither_alarms_nor_failures_are_progress(journal: Journal):
    alarms = await alarms_of(LocalStore(journal), 4)
    for number, alarm in enumerate(alarms, 1):
        assert alarm.quiet_s >= number * QUIET_S


async def test_a_run_in_which_every_rollout_fails_makes_no_progress(journal: Journal):
    mailbox = Mailbox(
        LocalStore(journal), consumer="learner", topics=(), member="learner", lease_s=30
    )

    async def circle() -> None:
        while True:
            await mailbox.append(CIRCLE)
            await asyncio.sleep(QUIET_S / 10)

    circling = asyncio.create_task(circle())
    try:
        (alarm, *_) = await alarms_of(LocalStore(journal), 1)
    finally:
        circling.cancel()
    assert alarm.quiet_s >= QUIET_S


def test_an_alarm_lasts_while_every_rollout_fails_and_ends_with_one_that_does_not():
    passing = Passing()
    alarm = Stalled(quiet_s=60.0, waiting=())
    for message in (alarm, *CIRCLE):
        passing.fold(message)
    assert passing.stalled == alarm
    passing.fold(rollout(1, 0))
    assert passing.stalled is None


async def test_a_store_that_fails_is_named(journal: Journal):
    class Gone(LocalStore):
        async def wait(self, topics: Sequence[str], after: int, wait_s: float) -> int:
            raise JournalError("the store's socket cannot be reached")

    (alarm, *_) = await alarms_of(Gone(journal), 1)
    assert alarm.waiting == ("store does not answer",)
