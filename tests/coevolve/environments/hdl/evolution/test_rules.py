"""Signals about regions from counts made by hand, and when they repeat."""

from typing import Any

import msgspec
import pytest

from coevolve.environments.hdl.coverage.regions import Region, about
from coevolve.environments.hdl.evolution.messages import DesignSummary
from coevolve.environments.hdl.evolution.observer import (
    MOST_REMEMBERED,
    DesignObserver,
    RegionDetector,
    RegionsState,
)
from coevolve.environments.hdl.evolution.rules import forgotten, rare
from coevolve.journal.snapshots import Piece
from protocols.config import RunConfig
from protocols.evolution import Signal
from protocols.evolution_config import SignalsConfig
from tests.design_visits import design_visit

PAPER = SignalsConfig(rules="paper", cool_down_versions=4)
POSTERIOR = SignalsConfig(cool_down_versions=4)
A, B, C = (Region(name=name, points=(n, n + 1)) for name, n in (("a", 0), ("b", 2), ("c", 4)))
REGIONS = (A, B, C)
POINTS = 6
SIGNAL = Signal(
    signal_id="rare-g0-2",
    kind="rare",
    about=about("top", A),
    score=1.0,
    rule="rare",
    evidence=(),
    policy_version=3,
)


def visit(*counts: int, version: int = 0, group: int = 0, root: str = ""):
    return design_visit(
        dict(enumerate(counts)),
        points=POINTS,
        version=version,
        group=group,
        root=root,
        evidence=(group,),
    )


def test_a_region_is_forgotten_if_one_of_its_points_is_lost():
    before = [visit(8, 8, 1, 1, 8, 0), visit(8, 8, 0, 0, 8, 0)]
    now = visit(8, 0, 0, 0, 0, 0, version=1, group=7)
    found = forgotten(PAPER, before, now, REGIONS, POINTS)
    # a: 16 of 16 rollouts before; b: 1 of 16; c was never completely covered.
    assert [(each.about, each.score) for each in found] == [
        (about("top", A), 1.0),
        (about("top", B), 1 / 16),
    ]
    assert found[0].evidence == (7,)


def test_a_loss_by_chance_is_not_forgetting():
    before = [visit(8, 8, 1, 1, 8, 0), visit(8, 8, 0, 0, 8, 0)]
    now = visit(8, 0, 0, 0, 0, 0, version=1)
    found = forgotten(POSTERIOR, before, now, REGIONS, POINTS)
    assert [each.about for each in found] == [about("top", A)]
    # All 16 hits among the 16 earlier of 24 rollouts: 1 in C(24, 16).
    assert found[0].rule.endswith("by chance 1.4e-06")


def test_rare_regions_alternate_with_those_never_covered():
    visits = [visit(8, 8, 0, 0, 0, 0, group=n) for n in range(5)]
    visits[1] = visit(8, 8, 8, 1, 0, 0, group=1)
    found = rare(PAPER, visits, REGIONS, POINTS)
    assert [each.about for each in found] == [about("top", B), about("top", C)]
    assert found[0].score == pytest.approx(1 - 1 / 40 / 0.05)
    assert found[0].evidence == (1,)
    assert (found[1].score, found[1].evidence) == (1.0, (4,))


def test_a_confident_rare_region_needs_enough_rollouts():
    never = [visit(8, 8, 0, 0, 0, 0, group=n) for n in range(8)]
    assert rare(POSTERIOR, never[:7], REGIONS, POINTS) == []  # 0.95^56 = 0.057
    assert len(rare(POSTERIOR, never, REGIONS, POINTS)) == 2  # 0.95^64 = 0.038


def detector(signals: SignalsConfig = PAPER) -> RegionDetector:
    return RegionDetector(RunConfig(name="x", environment={"use": "hdl"}, signals=signals))


def test_after_the_cool_down_a_signal_names_another_region():
    desk, said = detector(), list[Signal]()
    regions = tuple(Region(name=str(n), points=(n,)) for n in range(POINTS))
    for version in range(9):
        said += desk.judge(visit(version=version, group=version), regions, POINTS)
    assert [(each.signal_id, each.about) for each in said] == [
        (f"rare-g{group}-{number}", about("top", regions[region]))
        for group, number, region in (
            *((0, 2, 0), (0, 3, 1)),
            *((4, 2, 2), (4, 3, 3)),
            *((8, 2, 4), (8, 3, 5)),
        )
    ]


def test_a_rebuilt_detector_returns_the_same_signals():
    visits = [visit(8, n % 2, 0, 0, n % 3, 1, version=n, group=n) for n in range(12)]
    whole, halves = detector(), detector()
    expected = [whole.judge(each, REGIONS, POINTS) for each in visits]
    for each, signals in zip(visits[:6], expected, strict=False):
        halves.recall(each)
        for signal in signals:
            halves.recall(signal)
    state = msgspec.msgpack.encode(halves.state)
    halves = detector()
    halves.state = msgspec.msgpack.decode(state, type=RegionsState)
    assert [halves.judge(each, REGIONS, POINTS) for each in visits[6:]] == expected[6:]
    assert any(expected[6:])


def test_designs_and_tasks_visited_long_ago_are_forgotten():
    desk = detector()
    for number in range(MOST_REMEMBERED + 5):
        name = f"d{number}"
        desk.recall(msgspec.structs.replace(SIGNAL, about=about(name, A)))
        seen = visit(8, 8, 0, 0, 0, 0, root=name)
        details = msgspec.structs.replace(seen.details, design=name)
        desk.recall(DesignSummary(seen.group, details))
    state = desk.state
    assert len(state.of_design) == len(state.last) == len(state.signal_counts) == MOST_REMEMBERED
    assert "d4" not in state.of_design


def test_the_observer_of_designs_starts_from_a_snapshot():
    parts: Any = None
    config = RunConfig(name="x", environment={"use": "hdl"}, signals=PAPER)
    halves, whole, resumed = (
        DesignObserver(config, tasks=parts, catalogue=parts, simulator=parts) for _ in range(3)
    )
    summaries = [
        visit(8, n % 2, 0, 0, n % 3, 1, version=n, group=n, root="top").group for n in range(12)
    ]
    for number, each in enumerate([*summaries[:6], SIGNAL, *summaries[6:]]):
        if number == 8:
            state = msgspec.msgpack.encode(halves.state)
            resumed.state = msgspec.msgpack.decode(state, type=type(resumed.state))
        halves.recall(each)
        whole.recall(each)
        if number >= 8:
            resumed.recall(each)
    assert isinstance(resumed, Piece)
    assert msgspec.json.schema(type(resumed.state))
    assert msgspec.msgpack.encode(resumed.state) == msgspec.msgpack.encode(whole.state)
    assert any(whole.state.of_regions.of_design.values())


def test_groups_that_start_from_a_state_cause_no_forgetting():
    desk = detector(msgspec.structs.replace(PAPER, kinds=("forgetting",)))
    for version in range(2):
        following = design_visit(
            {0: 8 * (1 - version)}, points=1, version=version, root="top", task_id="top/1/ab"
        )
        assert desk.judge(following, (Region(name="a", points=(0,)),), 1) == []
    said = [
        desk.judge(
            design_visit({0: 8 * (1 - version)}, points=1, version=version),
            (Region(name="a", points=(0,)),),
            1,
        )
        for version in range(2)
    ]
    assert [[each.kind for each in signals] for signals in said] == [[], ["forgetting"]]
