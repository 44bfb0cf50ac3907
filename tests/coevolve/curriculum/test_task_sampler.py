"""Tests that a group's requests say whether its task's reference may be imitated."""

import msgspec
import pytest

from coevolve.curriculum.group_requests import group_requests
from coevolve.curriculum.task_sampler import PoolSampler
from coevolve.environments.tools.filesystem.environment import StaticSource
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from protocols.config import RunConfig
from protocols.evolution import NO_READING, Reading
from tests.evolving import CONFIRMED, admitted, verdict


@pytest.mark.parametrize(
    ("reading", "successes", "imitable"),
    [(NO_READING, 0, False), (NO_READING, 1, True), (CONFIRMED, 0, True)],
)
def test_the_reference_of_a_made_task_is_imitable_once_confirmed(
    quickstart: RunConfig, reading: Reading, successes: int, imitable: bool
) -> None:
    pool = msgspec.structs.replace(quickstart.pool, synthetic_share=1.0)
    config = msgspec.structs.replace(quickstart, pool=pool)
    sampler = PoolSampler(config, StaticSource(0, FilesystemConfig(seeds=1)))
    for message in (
        *sampler.opening(),
        verdict("c", "s", admitted("made", successes), reading=reading),
    ):
        sampler.fold(message)
    draw = sampler.task(0)
    assert draw.task_id == "made"
    requests = group_requests(quickstart, 0, draw.task_id, imitable=draw.imitable)
    assert {request.imitable for request in requests} == {imitable}


def test_a_runs_seed_determines_its_draws_and_the_seeds_of_its_rollouts(quickstart: RunConfig):
    def asked(seed: int) -> tuple[list[str], list[int]]:
        config = msgspec.structs.replace(quickstart, seed=seed)
        sampler = PoolSampler(config, StaticSource(0, FilesystemConfig(seeds=20)))
        for task in sampler.opening():
            sampler.fold(task)
        drawn = [sampler.task(number).task_id for number in range(10)]
        requests = [each for n in range(3) for each in group_requests(config, n, drawn[n])]
        return drawn, [each.seed for each in requests]

    assert asked(1) == asked(1)
    for one, other in zip(asked(1), asked(2), strict=True):
        assert one != other
