"""Whom a cycle waits for, and how much may be in flight."""

from collections.abc import Callable

import msgspec
import pytest

from coevolve.curriculum.schedule import Schedule
from protocols.config import RunConfig
from protocols.control import PartsRest, RunStarted
from protocols.evolution import (
    ModelAnswers,
    ModelRests,
    ReaderAnswers,
    ReaderRests,
)
from protocols.journal import Message
from tests.evolving import candidate, requested, signal, swapped

CYCLES = msgspec.convert({"name": "x", "evolve_every": 2}, RunConfig)


def folded(*messages: Message, config: RunConfig = CYCLES) -> Schedule:
    schedule = Schedule.of(config)
    for message in (RunStarted(run_id="r", config=""), *messages):
        schedule.fold(message)
    return schedule


OPEN: tuple[Message, ...] = (requested(0, "seed-1"), signal("s"), candidate("c", "s"))

MODEL = ModelRests(synthesizer="m", failures=3, reason="?")
READER = ReaderRests(failures=3, reason="?")


@pytest.mark.parametrize(
    ("rests", "works"),
    [
        *(
            (PartsRest(causes={part: "?"}), PartsRest(causes={}))
            for part in ("signals", "validator")
        ),
        (PartsRest(causes={"synthesizer": "?"}), PartsRest(causes={"evaluator": "?"})),
        (MODEL, ModelAnswers(synthesizer="m")),
        (MODEL, swapped()),
        (READER, ReaderAnswers()),
    ],
)
@pytest.mark.parametrize("kept", [folded, lambda *messages: restored(*messages)])
def test_a_cycle_waits_for_nobody_who_rests_and_again_for_who_works(
    rests: Message, works: Message, kept: Callable[..., Schedule]
):
    assert not folded(*OPEN).is_settled
    schedule = kept(*OPEN, rests)
    assert schedule.is_settled
    schedule.fold(works)
    assert not schedule.is_settled


def restored(*messages: Message) -> Schedule:
    """Return a schedule that took up the state of another one."""
    schedule = Schedule.of(CYCLES)
    schedule.state = folded(*messages)
    return schedule


@pytest.mark.parametrize(("in_flight", "room"), [(0, 24), (5, 5), (24, 24)])
def test_as_many_groups_are_in_flight_as_staleness_or_the_run_file_allows(
    in_flight: int, room: int
):
    tree = {
        "name": "x",
        "learner": {"groups_per_step": 8, "max_staleness": 2, "steps": 100},
        "rollout": {"in_flight_groups": in_flight},
    }
    config = msgspec.convert(tree, RunConfig)
    assert folded(config=config).may_be_issued(go_on=False) == room
