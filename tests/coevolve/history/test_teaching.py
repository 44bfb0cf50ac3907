"""What the steps of a run learned from, in figures."""

import pytest
from msgspec.structs import replace

from coevolve.history.teaching import DIVERGENCE, NOISE, Teaching
from protocols.learning import Returned, StepReport
from tests.evolving import discarded, stepped


def step(number: int, **metrics: float) -> StepReport:
    names = {name.replace("__", "/"): value for name, value in metrics.items()}
    return replace(stepped(number, "a"), metrics=names)


def folded(*messages: StepReport) -> Teaching:
    teaching = Teaching()
    for each in (*messages, discarded(0)):
        teaching.fold(each)
    return teaching


def test_amounts_are_means_over_the_steps_that_trained():
    first = step(1, source__replay__rows=24, source__replay__grad_norm=0.5)
    second = step(2, source__replay__rows=12, source__objective__grad_norm=3.0)
    back = replace(step(3, source__replay__rows=99), returned=Returned(to_version=1, rate_factor=1))
    objective, replay = folded(first, second, back).amounts()
    assert (objective.groups, objective.group_share, objective.norm) == (2, 1.0, 1.5)
    assert (replay.groups, replay.references, replay.norm) == (0, 18.0, 0.25)


def test_what_few_steps_measure_is_shown_until_the_next_one_does():
    measured = replace(step(1), metrics={DIVERGENCE: 0.25, NOISE: 7.0})
    for steps in ([measured], [measured, step(2)]):
        found = folded(*steps)
        assert (found.divergence, found.noise_scale) == (0.25, 7.0)


@pytest.mark.parametrize(
    ("shares", "said"), [((1.0, 0.5), "75 %"), ((0.3, 0.2), "25 %"), ((0.2, 0.1), ""), ((), "")]
)
@pytest.mark.parametrize("imitates", [False, True])
def test_a_run_whose_attempts_end_by_a_limit_is_told_to_raise_it(
    shares: tuple[float, ...], said: str, *, imitates: bool
):
    teaching = folded(*(step(n, response_length__clip_ratio=s) for n, s in enumerate(shares, 1)))
    teaching.imitated += imitates
    found = teaching.remedies
    assert ("stronger model" in found) == (not said and not imitates)
    assert ("raise rollout.max_call_tokens" in found and f"{said} of the" in found) == bool(said)
    assert ("imitate for more steps" in found) == imitates
