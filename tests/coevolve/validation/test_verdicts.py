"""How probes label a candidate."""

import pytest

from coevolve.validation.verdicts import admission
from protocols.evolution import Label
from tests.evolving import seed


@pytest.mark.parametrize(
    ("successes", "rollouts", "label"),
    [
        (0, 0, "unprobed"),
        (0, 1, "not_yet"),
        (0, 4, "not_yet"),
        (1, 4, "learnable"),
        (3, 4, "learnable"),
        (4, 4, "mastered"),
        (1, 1, "mastered"),
    ],
)
def test_a_candidate_is_labelled_by_all_some_or_none_of_its_probes(
    successes: int, rollouts: int, label: Label
):
    found = admission(seed("t"), successes, rollouts)
    assert (found.task_id, found.label) == ("t", label)
    assert (found.probe_successes, found.probe_rollouts) == (successes, rollouts)
