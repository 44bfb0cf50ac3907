"""A real run with vLLM as the rollout engine, in turns with the learner.

It trains, scores on the same engine, and survives the death of its engine.
"""

from pathlib import Path

import numpy as np
import pytest

from protocols.journal import Message
from protocols.learning import (
    EngineAsleep,
    Evaluation,
    PolicyVersion,
    StepReport,
    TurnBegan,
    TurnEnded,
)
from protocols.rollouts import Rollout
from tests.books import check_books
from tests.launched import SMALL, launched

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.timeout(900)]

STEPS = 12
ENGINE = "rollout.engine={kind: vllm, kv_cache_mb: 32, sleeps: true}"
SCORES = "evaluator.engine=rollout"


def test_a_run_on_vllm_goes_on_when_its_engine_is_killed(tmp_path: Path):
    small = (
        *SMALL,
        "arm=static",
        ENGINE,
        SCORES,
        "environment.held_out=8",
        f"learner.steps={STEPS}",
    )
    with launched(tmp_path, "vllm", *small) as run:
        run.until("the first step", lambda: run.step() >= 1, 300)
        run.process_of("RolloutShell").kill()
        assert run.wait(600) == 0, run.said()
    assert {event["part"] for event in run.events("part_restarted")} == {"rollout-0"}
    messages = [message for _, message in run.journal()]
    check_books(messages, STEPS)
    published = [each.version for each in messages if isinstance(each, PolicyVersion)]
    assert published == list(range(STEPS + 1))
    assert {each.version for each in messages if isinstance(each, Evaluation)} == {0, STEPS}
    check_turns(messages)
    rollouts = [each for each in messages if isinstance(each, Rollout)]
    assert max(each.version_max for each in rollouts) >= STEPS - 3
    for tokens in (each.tokens for each in rollouts):
        mask = np.frombuffer(tokens.mask, np.uint8) == 1
        logprobs = np.frombuffer(tokens.logprobs, np.float32)
        versions = np.frombuffer(tokens.versions, np.int32)
        assert mask.any()
        assert (logprobs[mask] <= 0).all()
        assert (versions[mask] >= 0).all()
        assert (versions[~mask] == -1).all()


def check_turns(messages: list[Message]) -> None:
    """Check that the engine slept during every step."""
    asleep, steps = False, 0
    for message in messages:
        match message:
            case EngineAsleep():
                asleep = True
            case TurnEnded():
                asleep = False
            case StepReport():
                assert asleep
                steps += 1
            case _:
                pass
    assert steps == STEPS
    began = [each.step for each in messages if isinstance(each, TurnBegan)]
    assert began == list(range(1, STEPS + 1))
