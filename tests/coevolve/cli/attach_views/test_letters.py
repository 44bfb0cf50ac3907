import json

import pytest

from coevolve.cli.attach_views.letters import letters
from coevolve.cli.attach_views.status import status
from coevolve.journal.codec import decode_as
from protocols.control import (
    DeadLetter,
    LetterAnswered,
    LetterRetried,
    NodesTooSmall,
    PartsRest,
    RunResumed,
)
from protocols.errors import RunError
from protocols.evolution import ModelAnswers, ModelRests, ReaderAnswers, ReaderRests
from tests.coevolve.cli.attach_views.conftest import Stage
from tests.scripted import add


def letter(sequence: int, subject: str) -> DeadLetter:
    return DeadLetter(
        consumer="synthesizer",
        sequence=sequence,
        unit=f"signal: signal_id {subject}",
        subject=subject,
        attempts=3,
        reason="RecursionError: a deep answer",
    )


async def test_letters_are_listed_with_what_their_retries_gave(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(
        [
            *(letter(10 * n, f"s{n}") for n in (1, 2, 3)),
            LetterRetried(letter=1, consumer="synthesizer", sequence=10),
            LetterRetried(letter=2, consumer="synthesizer", sequence=20),
            LetterAnswered(letter=1, done=True, outcome="candidate"),
            LetterAnswered(letter=2, done=False, outcome="RecursionError: again"),
        ]
    )
    await letters(stage.subject(), (), as_json=False)
    said = capsys.readouterr().out
    assert "3 dead letters" in said
    assert "signal: signal_id s3" in said
    assert "RecursionError: a deep answer" in said
    await letters(stage.subject(), (), as_json=True)
    found = json.loads(capsys.readouterr().out)["letters"]
    assert [(each["number"], each["done"], each["retry"]) for each in found] == [
        (1, True, "done: candidate"),
        (2, False, "failed again: RecursionError: again"),
        (3, False, ""),
    ]


async def test_a_retry_asks_the_part_and_all_means_those_that_are_not_done(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    done = LetterAnswered(letter=1, done=True, outcome="candidate")
    stage.write([letter(10, "s1"), letter(20, "s2"), done])
    await letters(stage.subject(running=True), ("all",), as_json=True)
    assert json.loads(capsys.readouterr().out)["retried"] == [2]
    (record,) = await stage.store.scan("letter_retried")
    assert decode_as(record, LetterRetried) == LetterRetried(
        letter=2, consumer="synthesizer", sequence=20
    )
    with pytest.raises(RunError, match="has no dead letter 7; `coevolve attach letters` lists"):
        await letters(stage.subject(running=True), ("7",), as_json=False)
    with pytest.raises(RunError, match="not running"):
        await letters(stage.subject(), ("2",), as_json=False)


async def test_status_says_what_rests_and_why_until_it_works_again(
    stage: Stage, capsys: pytest.CaptureFixture[str]
):
    stage.write(
        [
            PartsRest(causes={"validator": "validator: no memory"}),
            ModelRests(synthesizer="glm", failures=3, reason="status 500: out of order"),
            ReaderRests(failures=3, reason="no answer within 5 s"),
            NodesTooSmall(reasons=("the node b is too small",)),
            letter(10, "s1"),
        ]
    )
    await status(stage.subject(), as_json=False)
    said = capsys.readouterr().out
    assert "validator rests, and is tried again: validator: no memory" in said
    assert "the synthesizer's model glm rests" in said
    assert "status 500: out of order" in said
    assert "the reader of instructions rests, and candidates wait until it answers: no ans" in said
    assert "the node b is too small" in said
    assert "dead letters: 1; see `attach letters`" in said
    resumed = RunResumed(run_id="r", config="{}")
    await add(stage.store, PartsRest(causes={}), ModelAnswers(synthesizer="glm"), resumed)
    await add(stage.store, ReaderAnswers())
    await status(stage.subject(), as_json=True)
    tree = json.loads(capsys.readouterr().out)
    assert tree["nodes_too_small"] == []
    assert (tree["resting"], tree["model_rests"], tree["dead_letters"]) == ({}, None, 1)
    assert tree["reader_rests"] is None
