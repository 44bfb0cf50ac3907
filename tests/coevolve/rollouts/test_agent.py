import math
from typing import Any

import msgspec
import pytest

from coevolve.rollouts.agent import Episode, rollout_of, room_left, seed_of
from coevolve.rollouts.transcript import Transcript
from protocols import columns
from protocols.config import RolloutConfig
from protocols.errors import ContractError, SimulatorError
from protocols.generation import Generation
from protocols.rollouts import Action, RolloutRequest

REQUEST = RolloutRequest(
    group_id="g",
    group=0,
    index=0,
    group_size=2,
    task_id="t",
    seed=0,
    policy_version_at_least=0,
)


def episode(*, reward: float = 1.0, passed: int = 1) -> Episode:
    transcript = Transcript()
    transcript.feed([1])
    transcript.add(Generation(token_ids=(2,), logprobs=(0.0,), versions=(3,), stopped=True))
    return Episode(
        tokens=transcript.tokens(),
        actions=(),
        turns_passed=passed,
        turns_total=1,
        reward=reward,
        ended="finished",
        versions=tuple(transcript.sampled_versions()),
        oldest_version=transcript.oldest_version(),
        wall_s=0.0,
    )


def test_an_attempt_is_recorded_with_the_versions_that_wrote_it() -> None:
    recorded = rollout_of(REQUEST, episode())
    assert (recorded.version_min, recorded.version_max, recorded.reward) == (3, 3, 1.0)


def test_a_rollout_says_what_was_asked_for_and_what_came_of_it() -> None:
    asked = msgspec.structs.replace(REQUEST, group=7, index=1, author="teacher", instance=5)
    told: dict[str, Any] = {
        "actions": (Action(turn=0, text="ls()", result="", failed=False),),
        "ended": "wrong",
        "turn_starts": (0, 1),
        "wall_s": 2.5,
        "outcome": msgspec.Raw(b"\xa1x"),
        "outcome_key": "key",
        "simulator_cpu_s": 0.5,
    }
    made = msgspec.structs.replace(episode(reward=0.25, passed=0), **told)
    recorded = rollout_of(asked, made, attempt=2)
    for name in ("group_id", "group", "index", "group_size", "task_id", "author", "instance"):
        assert getattr(recorded, name) == getattr(asked, name)
    for name in (*told, "reward", "tokens", "turns_passed", "turns_total"):
        assert getattr(recorded, name) == getattr(made, name)
    assert (recorded.seed, recorded.tries) == (seed_of(asked.seed, 2), 3)


def test_a_rollout_is_as_old_as_the_oldest_keys_and_values_that_it_used() -> None:
    transcript = Transcript()
    transcript.add(
        Generation(
            token_ids=(2, 4),
            logprobs=(0.0, 0.0),
            versions=(3, 4),
            cache_versions=(1, 4),
            stopped=True,
        )
    )
    versions, oldest = (3, 4), transcript.oldest_version()
    made = msgspec.structs.replace(episode(), versions=versions, oldest_version=oldest)
    recorded = rollout_of(REQUEST, made)
    assert (recorded.version_min, recorded.version_max) == (1, 4)
    assert columns.from_int32(transcript.tokens().cache_versions) == [1, 4]


def test_a_rollout_is_as_imitable_as_its_request_says() -> None:
    for imitable in (True, False):
        request = msgspec.structs.replace(REQUEST, imitable=imitable)
        assert rollout_of(request, episode()).imitable == imitable


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (episode(reward=math.nan), "task t: a rollout needs a finite reward, got nan"),
        (episode(passed=2), "task t: a rollout needs 0 <= turns_passed <= turns_total"),
    ],
)
def test_an_impossible_attempt_is_refused(made: Episode, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        rollout_of(REQUEST, made)


def test_an_attempt_without_a_sampled_token_is_refused() -> None:
    transcript = Transcript()
    transcript.feed([1, 2])
    with pytest.raises(ContractError, match="needs at least one sampled token, found none"):
        transcript.oldest_version()


def test_a_prompt_leaves_room_for_an_answer_or_is_refused() -> None:
    limits = RolloutConfig(max_tokens=10)
    assert room_left(limits, "t", 9) == 1
    with pytest.raises(SimulatorError, match=r"rollout\.max_tokens = 10, found 10 tokens"):
        room_left(limits, "t", 10)
