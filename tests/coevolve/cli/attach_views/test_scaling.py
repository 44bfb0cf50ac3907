import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from coevolve.cli.attach_views import scaling
from coevolve.cli.attach_views.scaling import scale
from coevolve.cli.attach_views.subject import LiveRun
from coevolve.journal.mailbox import Mailbox
from protocols.control import PartStatus, RolloutScaled, ScaleRefused, ScaleRequested
from protocols.errors import RunError
from protocols.interfaces import SupervisedPart
from protocols.journal import Message
from protocols.learning import WeightsVerified
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.fakes import ScriptPart

Answering = Callable[[ScaleRequested], list[Message]]

WAIT_S = 20.0
ALONE = ("rollout-0",)


def accepted(*engines: str) -> Answering:
    def answer(request: ScaleRequested) -> list[Message]:
        return [
            RolloutScaled(
                cause="request",
                actors=request.actors,
                engines=engines,
                request_id=request.request_id,
            )
        ]

    return answer


def refused(request: ScaleRequested) -> list[Message]:
    return [ScaleRefused(request_id=request.request_id, reason="the cluster has 1 GPU")]


def proven(engine: str) -> WeightsVerified:
    return WeightsVerified(
        engine=engine,
        version=3,
        digest="",
        max_abs_difference=0.0,
        wall_s=0.1,
        pause_s=0.0,
        proven_ns=1,
    )


async def scaled(
    stage: Stage,
    actors: int,
    answer: Answering,
    *later: Message,
    before: Sequence[Message] = (),
    begun: Sequence[str] = ALONE,
    parts: Sequence[SupervisedPart] = (),
    wait: bool = True,
    as_json: bool = False,
) -> None:
    """Ask for engines; the run has those ``begun``, answers, and then writes ``later``.

    Its records begin with those ``before``.
    """
    start = RolloutScaled(cause="start", actors=len(begun), engines=tuple(begun))
    stage.write([*before, start])
    box = Mailbox(
        stage.store, consumer="scaling", topics=("scale_requested",), member="l", lease_s=30
    )

    async def run() -> None:
        ((sequence, message),) = await box.take(1, WAIT_S)
        assert isinstance(message, ScaleRequested)
        await box.complete([sequence], answer(message))
        for each in later:
            await box.append([each])

    async with asyncio.timeout(WAIT_S):
        answering = asyncio.create_task(run())
        subject = stage.subject(running=True)
        subject = replace(subject, live=LiveRun(store=stage.store, parts=parts))
        await scale(subject, actors, wait=wait, as_json=as_json)
        await answering


async def test_added_engines_are_awaited_until_they_serve(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    await scaled(stage, 2, accepted("rollout-0", "rollout-1"), proven("rollout-1"))
    assert capsys.readouterr().out == (
        "evolving: rollout engines: rollout-0, rollout-1\n"
        "waits up to 300 s for rollout-1 to serve the policy\n"
        "evolving: 2 rollout engines serve the policy\n"
    )


async def test_without_waiting_the_command_returns_once_the_run_has_accepted(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    await scaled(stage, 2, accepted("rollout-0", "rollout-1"), wait=False, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["joined"], answer["waited"]) == (["rollout-1"], False)


class Leaving(ScriptPart):
    """An engine whose process lives until it was looked at twice."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [])
        self.looks = 0

    async def status(self) -> PartStatus:
        self.looks += 1
        self.alive = self.looks < 3
        return await super().status()


async def test_engines_that_leave_are_awaited_until_their_processes_have_ended(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    kept, left = Leaving("rollout-0"), Leaving("rollout-1")
    begun = (kept.name, left.name)
    await scaled(stage, 1, accepted(*ALONE), begun=begun, parts=(kept, left), as_json=True)
    assert (kept.looks, left.looks) == (0, 3)
    assert json.loads(capsys.readouterr().out)["left"] == ["rollout-1"]


async def test_an_earlier_proof_of_an_engine_that_joins_again_does_not_count(stage: Stage):
    timeout = msgspec.structs.replace(stage.config.delivery, timeout_s=1.0)
    stage.config = msgspec.structs.replace(stage.config, delivery=timeout)
    with pytest.raises(RunError, match="no proof from rollout-1 within 1 s"):
        await scaled(stage, 2, accepted("rollout-0", "rollout-1"), before=[proven("rollout-1")])


async def test_a_change_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    await scaled(stage, 1, accepted(*ALONE), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "run": "evolving",
        "actors": 1,
        "engines": ["rollout-0"],
        "waited": True,
        "joined": [],
        "left": [],
    }


async def test_a_maximum_that_the_nodes_do_not_reach_is_told(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    await scaled(stage, 4, accepted(*ALONE))
    assert "rollout-0; up to 4 when nodes with room for them join" in capsys.readouterr().out


async def test_a_refusal_is_an_error_with_the_reason(stage: Stage):
    with pytest.raises(RunError, match="keeps its rollout engines: the cluster has 1 GPU"):
        await scaled(stage, 9, refused)


async def test_an_added_engine_that_is_let_go_again_is_an_error(stage: Stage):
    failed = RolloutScaled(cause="failure", actors=2, engines=ALONE)
    with pytest.raises(RunError, match="let rollout-1 go again"):
        await scaled(stage, 2, accepted("rollout-0", "rollout-1"), failed)


async def test_a_later_request_that_takes_an_engine_away_is_named(stage: Stage):
    later = RolloutScaled(cause="request", actors=1, engines=ALONE, request_id="another")
    with pytest.raises(RunError, match="rollout-1 go again, because a later request asked for 1"):
        await scaled(stage, 2, accepted("rollout-0", "rollout-1"), later)


async def test_a_run_that_does_not_answer_is_an_error(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scaling, "ANSWER_S", 0.1)
    with pytest.raises(RunError, match="did not answer within"):
        await scale(stage.subject(running=True), 2, wait=True, as_json=False)


async def test_a_run_that_is_not_running_is_not_scaled(stage: Stage):
    with pytest.raises(RunError, match="not running; continue it with"):
        await scale(stage.subject(), 2, wait=True, as_json=False)
    assert (await stage.store.statistics()).last_sequence == 0
