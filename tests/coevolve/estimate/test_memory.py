from pathlib import Path

import pytest

from coevolve.estimate.memory import ERROR_SHARE, excesses
from protocols.control import PartStatus
from protocols.learning import WeightsFormat
from tests.learning import small_model
from tests.memory_peaks import peaks


def status(part: str, peak_bytes: int) -> PartStatus:
    return PartStatus(
        part=part,
        pid=1,
        waits_for="nothing",
        since_s=0.0,
        mailbox=0,
        done=0,
        policy_version=-1,
        last_error="",
        peak_bytes=peak_bytes,
    )


def test_a_process_that_takes_more_than_was_estimated_is_named_with_both_figures():
    statuses = [
        status("rollout-0", 6_200_000_000),
        status("rollout-1", 1_100_000_000),
        status("learner", 3_000_000_000),
        status("curriculum", 9_000_000_000),
    ]
    known = {"engine": 1_100_000_000, "learner": None}
    assert excesses(known, statuses) == [
        "memory: rollout-0 took 6.20 GB at its peak, and the estimate is 1.10 GB"
    ]
    assert excesses({}, statuses) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("train", [pytest.param("full", marks=pytest.mark.exhaustive), "lora"])
def test_the_estimate_of_a_process_is_what_it_takes(tmp_path: Path, train: WeightsFormat):
    for part, (expected, found) in peaks(small_model(tmp_path / "m"), train, tmp_path).items():
        assert abs(expected - found) < ERROR_SHARE * found, (part, expected, found)
