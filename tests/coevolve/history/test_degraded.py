"""What a run goes on without, in sentences."""

import pytest

from coevolve.history.degraded import Degraded
from protocols.control import (
    DeadLetter,
    FollowersFail,
    LetterAnswered,
    NodesTooSmall,
    PartsRest,
    RunResumed,
)
from protocols.evolution import ModelAnswers, ModelRests, ReaderAnswers, ReaderRests
from protocols.journal import Message
from tests.evolving import swapped

LETTER = DeadLetter(consumer="rollout", sequence=1, unit="u", subject="", attempts=3, reason="?")
MODEL = ModelRests(synthesizer="glm", failures=3, reason="no route")
READER = ReaderRests(failures=3, reason="no route")
RESUMED = RunResumed(run_id="r", config="")


def answered(*, done: bool) -> LetterAnswered:
    return LetterAnswered(letter=1, done=done, outcome="")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([PartsRest(causes={"signals": "broke"})], "signals rests, and is tried again: broke"),
        ([PartsRest(causes={"signals": "broke"}), PartsRest(causes={})], ""),
        ([PartsRest(causes={"signals": "broke"}), RESUMED], "signals rests"),
        ([FollowersFail(causes={"wandb": "broke"})], "wandb fails, and is tried again: broke"),
        ([FollowersFail(causes={"wandb": "broke"}), RESUMED], ""),
        ([NodesTooSmall(reasons=("node 2 has no room",))], "node 2 has no room"),
        ([NodesTooSmall(reasons=("node 2 has no room",)), RESUMED], ""),
        ([MODEL], "the synthesizer's model glm rests, and signals wait"),
        ([MODEL, ModelAnswers(synthesizer="glm")], ""),
        ([MODEL, swapped()], ""),
        ([READER], "the reader of instructions rests"),
        ([READER, ReaderAnswers()], ""),
        ([READER, swapped()], "the reader of instructions rests"),
        ([LETTER, LETTER], "dead letters: 2;"),
        ([LETTER, LETTER, answered(done=True)], "dead letters: 1;"),
        ([LETTER, answered(done=False)], "dead letters: 1;"),
        ([LETTER, answered(done=True)], ""),
    ],
)
def test_what_rests_is_told_until_it_works_again(messages: list[Message], words: str):
    found = Degraded()
    for each in messages:
        found.fold(each)
    assert len(found.lines()) == bool(words)
    assert "".join(found.lines()).startswith(words)
