"""A run of a foreign program that talks to the policy: through Ray, and killed in the middle."""

import signal
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.program.agent import ProgramOutcome
from protocols import columns
from protocols.rollouts import NO_TRAFFIC, FailedRollout, Rollout
from tests.launched import launched

SHORT = (
    "learner.steps=4",
    "learner.groups_per_step=2",
    "learner.threads=1",
    "rollout.group_size=4",
    "evaluator.every=4",
    "environment.held_out=2",
)


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_program_trains_and_loses_no_rollout_when_it_is_killed(tmp_path: Path) -> None:
    with launched(tmp_path, "program", *SHORT, run_file="program_openai") as run:
        run.until("the first step", lambda: run.step() >= 1)
        (program,) = run.process_of("SimulatorShell").children()
        program.send_signal(signal.SIGKILL)
        assert run.wait(200) == 0, run.said()
    messages = [message for _, message in run.journal()]
    rollouts = [each for each in messages if isinstance(each, Rollout)]
    assert not [each for each in messages if isinstance(each, FailedRollout)]
    assert len(rollouts) >= 4 * 2 * 4
    for each in rollouts:
        outcome = msgspec.msgpack.decode(each.outcome, type=ProgramOutcome)
        versions = columns.from_int32(each.tokens.versions)
        assert [version >= 0 for version in versions] == [mark == 1 for mark in each.tokens.mask]
        assert outcome.messages == len(each.actions) == 2
        assert each.traffic == NO_TRAFFIC
        assert 0 <= each.reward <= 1
    assert len({each.reward for each in rollouts}) > 4
    token = "/s/"
    texts = [path.read_text(errors="replace") for path in (run.directory / "logs").iterdir()]
    assert not [text for text in texts if token in text.replace("/s/***", "")]
