from typing import Any

import pytest

from coevolve.rollouts.conversation import Conversation
from protocols.config import RolloutConfig
from protocols.errors import ContractError, SimulatorError
from tests.fakes import CALL, ScriptGenerator, tool_task

NUMBER = 6
HIGHER, LOWER = (1,), (2,)


def talking(generator: ScriptGenerator, **limits: Any) -> Conversation:
    return Conversation(
        tool_task("guess", task_id="six"),
        "g0/0",
        seed=3,
        generator=generator,
        limits=RolloutConfig(**limits),
        stop_ids=(CALL,),
        temperature=1.0,
    )


async def test_a_game_of_guesses_is_one_attempt() -> None:
    generator = ScriptGenerator(["4", "7", "6"], version=2)
    async with talking(generator) as talk:
        talk.hear([9, 9])
        guesses: list[int] = []
        while (said := await talk.say()) is not None:
            guesses.append(int(chr(said[0] - 100)))
            if guesses[-1] == NUMBER:
                break
            talk.begin_turn()
            talk.hear(HIGHER if guesses[-1] < NUMBER else LOWER)
    episode = talk.episode(ended="finished", reward=1.0, turns_passed=3, turns_total=3)
    assert guesses == [4, 7, 6]
    assert generator.released == ["g0/0"]
    assert list(episode.tokens.mask) == [0, 0, 1, 1, 0, 1, 1, 0, 1, 1]
    assert episode.turn_starts == (0, 4, 7)
    assert set(episode.versions) == {2}
    assert [len(each.prompt_ids) for each in generator.requests] == [2, 5, 8]
    assert len({each.seed for each in generator.requests}) == 3


@pytest.mark.parametrize("limits", [{"max_tokens": 4}, {"max_tokens": 3}, {"max_call_tokens": 1}])
async def test_a_message_without_room_or_without_end_is_none(limits: dict[str, int]) -> None:
    async with talking(ScriptGenerator(["4", "7"]), **limits) as talk:
        talk.hear([9, 9])
        said = [await talk.say()]
        if said[0] is not None:
            talk.hear(LOWER)
            said.append(await talk.say())
    assert said[-1] is None
    recorded = talk.episode(ended="too_long", reward=0.0, turns_passed=0, turns_total=1)
    assert recorded.tokens.count <= 5


async def test_an_opening_without_room_for_an_answer_breaks_off() -> None:
    generator = ScriptGenerator([])
    async with talking(generator, max_tokens=2) as talk:
        talk.hear([9, 9])
        with pytest.raises(SimulatorError, match=r"task six: .*max_tokens = 2, found 2 tokens"):
            await talk.say()
    assert generator.released == ["g0/0"]


async def test_an_attempt_in_which_nothing_was_said_is_none() -> None:
    async with talking(ScriptGenerator([])) as talk:
        talk.hear([9, 9])
    with pytest.raises(ContractError, match="at least one sampled token"):
        talk.episode(ended="wrong", reward=0.0, turns_passed=0, turns_total=1)
