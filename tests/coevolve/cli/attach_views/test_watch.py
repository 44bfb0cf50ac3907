"""The live screen of a run from another process, and the same as JSON lines."""

import asyncio
import io
import json

import pytest

from coevolve.base.terminal import Terminal
from coevolve.cli.attach_views.watch import watch
from coevolve.screen.start import StartScreen
from protocols.control import RolloutScaled, RunFinished, RunPaused, RunStarted
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import signal
from tests.exporting import scored
from tests.screens import report

STARTED = RunStarted(run_id="r", config="")
ENGINES = RolloutScaled(cause="start", actors=1, engines=("rollout-0",))


class Shown(io.StringIO):
    """What a terminal has got, and a wait for more."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._written = asyncio.Event()

    def write(self, text: str, /) -> int:
        self._loop.call_soon_threadsafe(self._written.set)
        return super().write(text)

    async def until(self, words: str) -> None:
        async with asyncio.timeout(60):
            while words not in self.getvalue():
                self._written.clear()
                await self._written.wait()


def terminal(*, redraws: bool = True) -> tuple[StartScreen, Shown]:
    shown = Shown()
    console = Terminal(file=shown, force_terminal=redraws, color_system=None, width=80, height=24)
    return StartScreen(console, "coevolve attach watch"), shown


async def test_a_run_that_is_not_running_is_shown_once(stage: Stage):
    stage.write([STARTED, scored(0, 1), report(1), report(2)])
    screen, shown = terminal()
    await watch(stage.subject(), screen, as_json=False)
    last = shown.getvalue().rpartition("\x1b[2K")[2].splitlines()
    assert last[0].startswith("quickstart \u00b7 arm full \u00b7 seed 0")
    assert "not running after 0:0" in last[0]
    assert " step 2 of 120, about 3:56 left" in last[1]
    assert "\x1b" not in "".join(last)


async def test_a_running_run_is_redrawn_until_it_finishes(stage: Stage):
    stage.write([STARTED, ENGINES])
    screen, shown = terminal()
    subject = stage.subject(running=True)
    watching = asyncio.create_task(watch(subject, screen, as_json=False))
    await shown.until("learner")
    assert " step 0 of 120" in shown.getvalue()
    for message in (scored(0, 1), report(1)):
        await subject.actors().append(message)
    await shown.until(" step 1 of 120")
    for message in (report(2), RunPaused(run_id="r")):
        await subject.actors().append(message)
    await shown.until("! paused; no work is handed out")
    assert " step 2 of 120" in shown.getvalue()
    await subject.actors().append(RunFinished(steps=2))
    async with asyncio.timeout(60):
        await watching
    last = shown.getvalue().rpartition("\x1b[2K")[2].splitlines()
    assert "not running after 0:0" in last[0]
    assert " step 2 of 120" in last[1]


@pytest.mark.parametrize("redraws", [True, False])
async def test_programs_get_a_line_for_each_event(
    stage: Stage, capsys: pytest.CaptureFixture[str], *, redraws: bool
):
    stage.write([STARTED, scored(0, 1), report(1)])
    screen, _ = terminal(redraws=redraws)
    subject = stage.subject(running=True)
    watching = asyncio.create_task(watch(subject, screen, as_json=redraws))
    await asyncio.sleep(0)
    for message in (signal("s1"), report(2), RunFinished(steps=2)):
        await subject.actors().append(message)
    async with asyncio.timeout(60):
        await watching
    said = capsys.readouterr()
    events = [json.loads(line) for line in said.out.splitlines()]
    assert [(each["event"], each.get("step")) for each in events][:2] == [
        ("step", 1),
        ("evaluation", None),
    ]
    assert events[-1]["step"] == 2
    assert said.err == (
        "evolving: not running; this is its state in the journal; step 2 of 120; "
        "no policy version yet\n"
    )
