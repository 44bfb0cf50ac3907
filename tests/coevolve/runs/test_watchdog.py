import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import Mailbox
from coevolve.runs.watchdog import watch
from protocols.control import RunContinued, RunPaused, Stalled
from tests.fakes import ScriptPart

QUIET_S = 0.1


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
