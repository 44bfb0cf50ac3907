"""The quickstart learns: a short run of its run file gains ten points of held-out success.

The arm `uniform` makes its tasks at once, and there is hardly any policy gradient: what is left is
the imitation of references, to which the quickstart owes most of its gain.
"""

from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.loop import run_here
from protocols.learning import Evaluation
from tests.one_process import everything

STEPS, HELD_OUT, GAIN = 36, 160, 0.1
SHORT = (
    "arm=uniform",
    "evolve_every=0",
    f"environment.held_out={HELD_OUT}",
    "rollout.group_size=4",
    f"learner.steps={STEPS}",
    "learner.warmup_steps=3",
    "learner.learning_rate=1e-6",
    "learner.guard.action=none",
    "learner.threads=1",
    f"evaluator.every={STEPS}",
    "evaluator.fresh=0",
)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("short_waits")
async def test_the_quickstart_gains_ten_points_in_a_minute(tmp_path: Path):
    store = await run_here(load_config("quickstart", SHORT), tmp_path)
    scored: list[Evaluation] = await everything(store, Evaluation)
    success = {
        each.version: sum(score.turns_passed == score.turns_total for score in each.scores)
        for each in scored
    }
    assert [(each.version, len(each.scores)) for each in scored] == [
        (0, HELD_OUT),
        (STEPS, HELD_OUT),
    ]
    assert success[STEPS] - success[0] >= GAIN * HELD_OUT, success
