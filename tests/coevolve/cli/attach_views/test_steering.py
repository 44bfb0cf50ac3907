import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from coevolve.cli.attach_views.steering import checkpoint, pause, resume
from coevolve.cli.attach_views.swap import model_of, swap_synthesizer
from coevolve.journal.codec import decode_as
from coevolve.journal.mailbox import Mailbox
from coevolve.parts.pausing import is_paused
from protocols.errors import RunError
from protocols.evolution import SwapRefused, SwapRequested, SynthesizerSwapped
from protocols.journal import Message
from protocols.synthesizers import EndpointModel, PolicyModel
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.evolving import ENDPOINT

Answering = Callable[[SwapRequested], Message]


async def answering(stage: Stage, answer: Answering) -> None:
    """Answer one request as a synthesizer does."""
    mailbox = Mailbox(
        stage.store, consumer="synthesizer", topics=("swap_requested",), member="s", lease_s=30
    )
    ((sequence, message),) = await mailbox.take(1, 10.0)
    assert isinstance(message, SwapRequested)
    await mailbox.complete([sequence], [answer(message)])


async def swapping(stage: Stage, answer: Answering, *, as_json: bool = False) -> None:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(answering(stage, answer))
        await swap_synthesizer(stage.subject(running=True), ENDPOINT, as_json=as_json)


def taken_over(request: SwapRequested) -> Message:
    return SynthesizerSwapped(request_id=request.request_id, model=request.model, synthesizer="glm")


def refused(request: SwapRequested) -> Message:
    return SwapRefused(request_id=request.request_id, reason="http://127.0.0.1:9/v1: no answer")


async def test_a_pause_and_its_end_are_each_recorded_once(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    subject = stage.subject(running=True)
    await resume(subject, as_json=False)
    assert "evolving: is not paused" in capsys.readouterr().out
    await pause(subject, as_json=False)
    assert "evolving: paused; work in progress is finished" in capsys.readouterr().out
    assert await is_paused(stage.store)
    await pause(subject, as_json=False)
    assert "evolving: is already paused" in capsys.readouterr().out
    await resume(subject, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "run": "evolving",
        "paused": False,
        "already": False,
    }
    assert not await is_paused(stage.store)
    assert (await stage.store.statistics()).topics == {"run_paused": 1, "run_continued": 1}


async def test_steering_commands_refuse_a_run_that_is_not_running(stage: Stage):
    for steered in (
        pause(stage.subject(), as_json=False),
        resume(stage.subject(), as_json=False),
        checkpoint(stage.subject(), None, as_json=False),
        swap_synthesizer(stage.subject(), ENDPOINT, as_json=False),
    ):
        with pytest.raises(RunError, match=r"evolving: not running; continue it with"):
            await steered
    assert (await stage.store.statistics()).last_sequence == 0


async def test_the_journal_is_copied_into_the_runs_own_folder(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    await checkpoint(stage.subject(running=True), None, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["path"]).parent == stage.folder / "checkpoints"
    assert answer["size_bytes"] > 0
    await checkpoint(stage.subject(running=True), tmp_path / "copy", as_json=False)
    assert (tmp_path / "copy" / "data.mdb").is_file()


async def test_a_checkpoint_on_another_machine_needs_a_folder(stage: Stage):
    afar = dataclasses.replace(stage.subject(running=True), folder=None)
    with pytest.raises(
        RunError, match="needs --to with a new folder on the machine of the run's store"
    ):
        await checkpoint(afar, None, as_json=False)


async def test_a_swap_waits_for_the_synthesizer_and_names_the_new_one(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    await swapping(stage, taken_over)
    said = capsys.readouterr().out
    assert "waits up to 600 s for glm at http://127.0.0.1:9/v1 to answer" in said
    assert "evolving: glm synthesizes from the next signal on" in said
    requested = await stage.store.last("swap_requested")
    assert requested is not None
    assert decode_as(requested, SwapRequested).model == ENDPOINT


async def test_a_swap_says_that_the_judge_stays(stage: Stage, capsys: pytest.CaptureFixture[str]):
    stage.config = msgspec.structs.replace(
        stage.config,
        synthesizer=msgspec.structs.replace(stage.config.synthesizer, model=ENDPOINT),
        validator=msgspec.structs.replace(stage.config.validator, judge=True),
    )
    await swapping(stage, taken_over)
    assert (
        "glm synthesizes from the next signal on; validator.judge still asks glm at "
        "http://127.0.0.1:9/v1, as the run file says"
    ) in capsys.readouterr().out


async def test_a_run_without_a_judge_says_nothing_of_one(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    synthesizer = msgspec.structs.replace(stage.config.synthesizer, model=ENDPOINT)
    stage.config = msgspec.structs.replace(stage.config, synthesizer=synthesizer)
    await swapping(stage, taken_over)
    assert "judge" not in capsys.readouterr().out


async def test_a_swap_in_json(stage: Stage, capsys: pytest.CaptureFixture[str]):
    await swapping(stage, taken_over, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["swapped"], answer["synthesizer"]) == (True, "glm")


async def test_a_refused_swap_is_an_error_with_the_reason(stage: Stage):
    with pytest.raises(ExceptionGroup) as raised:
        await swapping(stage, refused)
    (error,) = raised.value.exceptions
    assert isinstance(error, RunError)
    assert (
        "the synthesizer stays as it is, the new one is refused: http://127.0.0.1:9/v1: no answer"
    ) in str(error)


async def test_the_answer_to_another_request_is_ignored(stage: Stage):
    hasty = EndpointModel(base_url="http://127.0.0.1:9/v1", model="m", timeout_s=0.1, tries=1)
    stage.write([SynthesizerSwapped(request_id="other", model=hasty, synthesizer="m")])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await swap_synthesizer(stage.subject(running=True), hasty, as_json=True)


async def test_arms_without_a_synthesizer_refuse_a_swap_and_write_nothing(stage: Stage):
    for arm in ("static", "uniform"):
        with pytest.raises(
            RunError,
            match=f"evolving: arm {arm} has no synthesizer to swap; arms full, random, placebo",
        ):
            await swap_synthesizer(
                stage.subject(running=True, arm=arm), PolicyModel(), as_json=False
            )
    assert (await stage.store.statistics()).last_sequence == 0


def options(**given: object) -> dict[str, object]:
    return {"policy": False, **given}


def test_options_become_a_model():
    assert model_of({"policy": True}) == PolicyModel()
    newest = model_of(options(policy=True, weights="newest", temperature="0"))
    assert newest == PolicyModel(weights="newest", temperature=0.0)
    endpoint = model_of(
        options(
            base_url="https://example.org/v1",
            model="m",
            key_variable="KEY",
            temperature="0.2",
            tries="2",
            usd_per_million_prompt_tokens="0.5",
            weights=None,
        )
    )
    assert endpoint == EndpointModel(
        base_url="https://example.org/v1",
        model="m",
        key_variable="KEY",
        temperature=0.2,
        tries=2,
        usd_per_million_prompt_tokens=0.5,
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"base_url": "http://x"}, "--model: is required with --base-url and missing"),
        (
            {"base_url": "http://x", "model": "m", "weights": "start"},
            "--weights: does not go with --base-url; leave it out",
        ),
        ({"policy": True, "model": "m"}, "--model: does not go with --policy; leave it out"),
        ({"policy": True, "temperature": "hot"}, "--temperature: needs `float`, found 'hot'"),
        (
            {"base_url": "http://x", "model": "m", "tries": "0"},
            "--tries: needs `int` >= 1, found '0'",
        ),
    ],
)
def test_invalid_options_of_a_model_are_refused_by_name(given: dict[str, object], words: str):
    with pytest.raises(RunError) as refusal:
        model_of(options(**given))
    assert str(refusal.value) == words
