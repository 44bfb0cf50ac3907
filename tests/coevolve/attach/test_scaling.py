import asyncio
import json
from collections.abc import Callable

import pytest

from coevolve.attach import scaling
from coevolve.attach.scaling import scale
from coevolve.journal.mailbox import Mailbox
from protocols.control import RolloutScaled, ScaleRefused, ScaleRequested
from protocols.errors import RunError
from protocols.journal import Message
from protocols.learning import WeightsVerified
from tests.coevolve.attach.conftest import Stage

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
    stage: Stage, actors: int, answer: Answering, *later: Message, as_json: bool = False
) -> None:
    """Ask for engines; the run has one, answers, and then writes ``later``."""
    stage.write([RolloutScaled(cause="start", actors=1, engines=ALONE)])
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
        await scale(stage.subject(running=True), actors, wait=True, as_json=as_json)
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
