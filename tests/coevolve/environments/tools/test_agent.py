import itertools
import math
from collections.abc import Sequence

import msgspec
import pytest

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.rollouts.agent import rollout_of
from protocols import columns
from protocols.config import RolloutConfig
from protocols.errors import SimulatorError
from protocols.rollouts import Rollout, RolloutRequest
from tests.fakes import (
    CALL,
    END,
    SAY,
    SEE,
    ScriptGenerator,
    ScriptRenderer,
    ScriptSimulator,
    tool_task,
)

REQUEST = RolloutRequest(
    group_id="g0",
    group=0,
    index=0,
    group_size=2,
    task_id="task",
    seed=5,
    policy_version_at_least=0,
)


async def rolled(
    script: list[str | None],
    *,
    turns: tuple[str, ...] = ("a",),
    right: tuple[str, ...] = ("a", "b"),
    limits: RolloutConfig | None = None,
) -> tuple[Rollout, ScriptGenerator, ScriptSimulator]:
    generator, simulator = ScriptGenerator(script, version=3), ScriptSimulator(right)
    arena = ToolAgent(
        generator=generator,
        simulator=simulator,
        renderer=ScriptRenderer(),
        limits=limits or RolloutConfig(),
        temperature=1.0,
    )
    played = await arena.attempt(tool_task(*turns), "session", seed=REQUEST.seed)
    return rollout_of(REQUEST, played), generator, simulator


async def test_a_conversation_that_passes_every_turn_earns_one():
    rollout, _, _ = await rolled(["a", None, "b", None], turns=("a", "b"))
    assert (rollout.reward, rollout.turns_passed, rollout.ended) == (1.0, 2, "finished")
    assert [(action.turn, action.text, action.result) for action in rollout.actions] == [
        (0, "a", "<a>"),
        (1, "b", "<b>"),
    ]


async def test_only_what_the_policy_wrote_is_marked_and_carries_its_version():
    rollout, _, _ = await rolled(["a", None])
    ids = columns.from_int32(rollout.tokens.token_ids)
    mask = list(rollout.tokens.mask)
    a = 100 + ord("a")
    assert ids == [SAY, a, a, CALL, 4, 100 + ord("<"), a, 100 + ord(">"), END]
    assert mask == [0, 0, 1, 1, 0, 0, 0, 0, 1]
    assert columns.from_int32(rollout.tokens.versions) == [3 if m else -1 for m in mask]
    assert columns.from_float32(rollout.tokens.logprobs) == [-0.5 if m else 0.0 for m in mask]
    assert (rollout.version_min, rollout.version_max) == (3, 3)


async def test_an_episode_records_the_start_of_each_turn():
    rollout, _, _ = await rolled(["a", None, "b", None], turns=("a", "b", "a"), right=("a",))
    assert (rollout.turns_passed, rollout.turns_total) == (1, 3)
    # An instruction of 2 tokens, a call of 2, its answer of 4, and the end of the turn.
    assert rollout.turn_starts == (0, 9)
    ids = columns.from_int32(rollout.tokens.token_ids)
    assert ids[9:11] == [SAY, 100 + ord("b")]
    failed, _, _ = await rolled(["wrong", None], turns=("a", "b"))
    assert failed.turn_starts == (0,)


async def test_each_request_extends_exactly_the_tokens_before_it():
    _, generator, _ = await rolled(["a", "b", None])
    prompts = [request.prompt_ids for request in generator.requests]
    assert all(b[: len(a)] == a for a, b in itertools.pairwise(prompts))
    assert len({request.seed for request in generator.requests}) == len(prompts)


async def test_a_failed_turn_ends_the_conversation():
    rollout, generator, _ = await rolled(["wrong", None, "b", None], turns=("a", "b"))
    assert (rollout.reward, rollout.turns_passed, rollout.ended) == (0.0, 0, "wrong")
    assert len(generator.requests) == 2


async def test_text_that_does_not_parse_is_the_policys_failure():
    rollout, _, _ = await rolled([""])
    assert (rollout.reward, rollout.ended) == (0.0, "malformed")


class Grumbling(ScriptRenderer):
    """Cannot read a call of `x`."""

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        if self.words(token_ids) == "x":
            raise MalformedCallsError("no x")
        return super().parse(token_ids, classes)


async def grumbled(script: list[str | None], answered: int) -> tuple[Rollout, ScriptGenerator]:
    generator = ScriptGenerator(script)
    agent = ToolAgent(
        generator=generator,
        simulator=ScriptSimulator(("a", "b")),
        renderer=Grumbling(),
        limits=RolloutConfig(max_calls_per_turn=2),
        temperature=1.0,
        answered_errors=answered,
    )
    played = await agent.attempt(tool_task("a", "b"), "session", seed=0)
    return rollout_of(REQUEST, played), generator


async def test_a_malformed_call_is_answered_by_its_fault_and_the_policy_goes_on():
    rollout, generator = await grumbled(["x", "a", None, "x", "b", None], 2)
    assert (rollout.reward, rollout.ended) == (1.0, "finished")
    assert [(a.turn, a.text, a.result, a.failed) for a in rollout.actions] == [
        (0, "x", "Error: no x", True),
        (0, "a", "<a>", False),
        (1, "x", "Error: no x", True),
        (1, "b", "<b>", False),
    ]
    heard = [SEE, *(100 + ord(c) for c in "Error: no x")]
    assert list(generator.requests[1].prompt_ids)[-len(heard) :] == heard
    ids, mask = columns.from_int32(rollout.tokens.token_ids), rollout.tokens.mask
    assert [mask[at] for at, token in enumerate(ids) if token == 100 + ord("x")] == [1, 0, 1, 0]


@pytest.mark.parametrize(("answered", "made"), [(0, 0), (1, 1), (2, 2)])
async def test_one_malformed_call_more_than_are_answered_ends_the_conversation(
    answered: int, made: int
):
    rollout, _ = await grumbled(["x"] * (answered + 1), answered)
    assert (rollout.reward, rollout.ended, len(rollout.actions)) == (0.0, "malformed", made)


async def test_more_calls_than_allowed_end_the_conversation_before_the_next_is_made():
    rollout, _, _ = await rolled(["a"] * 9, limits=RolloutConfig(max_calls_per_turn=2))
    assert (rollout.reward, rollout.ended, len(rollout.actions)) == (0.0, "too_many_calls", 2)


async def test_calls_of_one_message_are_carried_out_in_order_and_answered_together():
    rollout, generator, _ = await rolled(["a;b", None])
    assert [(action.text, action.result) for action in rollout.actions] == [
        ("a", "<a>"),
        ("b", "<b>"),
    ]
    assert len(generator.requests) == 2
    seen = [SEE, *(100 + ord(c) for c in "<a>"), SEE, *(100 + ord(c) for c in "<b>")]
    assert list(generator.requests[1].prompt_ids)[-len(seen) :] == seen


async def test_no_call_of_a_message_with_too_many_is_carried_out():
    rollout, _, _ = await rolled(["a", "a;b"], limits=RolloutConfig(max_calls_per_turn=2))
    assert (rollout.ended, len(rollout.actions)) == ("too_many_calls", 1)


async def test_a_call_or_a_conversation_may_not_outgrow_its_limit():
    call, _, _ = await rolled(["abcdef"], limits=RolloutConfig(max_call_tokens=3))
    assert (call.reward, call.ended) == (0.0, "too_long")
    whole, _, _ = await rolled(["a"] * 4, limits=RolloutConfig(max_tokens=9))
    assert (whole.reward, whole.ended) == (0.0, "too_long")


async def test_session_and_cache_are_released_even_when_the_simulator_breaks():
    generator = ScriptGenerator(["a"])
    simulator = ScriptSimulator((), breaks=lambda _: True)
    arena = ToolAgent(
        generator=generator,
        simulator=simulator,
        renderer=ScriptRenderer(),
        limits=RolloutConfig(),
        temperature=1.0,
    )
    with pytest.raises(SimulatorError):
        await arena.attempt(tool_task("a"), "session", seed=0)
    assert generator.released == ["session"]
    assert not simulator.open


async def test_the_last_words_of_the_last_turn_are_graded():
    class Talking(ScriptRenderer):
        """Takes a call of `c` for words."""

        def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
            return () if self.words(token_ids) == "c" else super().parse(token_ids)

    simulator = ScriptSimulator(("a",))
    agent = ToolAgent(
        generator=ScriptGenerator(["a", "c", "a", "c"]),
        simulator=simulator,
        renderer=Talking(),
        limits=RolloutConfig(),
        temperature=1.0,
    )
    assert (await agent.attempt(tool_task("a", "b"), "session", seed=0)).turns_passed == 2
    assert simulator.judged == ["", "c"]


async def test_an_opening_that_leaves_no_room_is_refused_in_words():
    few = RolloutConfig(max_tokens=2)
    with pytest.raises(SimulatorError, match=r"shorter than rollout\.max_tokens = 2, found 2"):
        await rolled(["a"], limits=few)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
async def test_a_reward_that_is_no_number_is_no_rollout(reward: float):
    rollout, _, _ = await rolled(["a", None])
    with pytest.raises(ValueError, match="a rollout needs a finite reward"):
        msgspec.structs.replace(rollout, reward=reward)
