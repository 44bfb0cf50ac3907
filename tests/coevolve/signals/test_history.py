import pytest
from msgspec.structs import replace

from coevolve.signals import history as histories
from coevolve.signals.history import History
from coevolve.signals.rules import CoolDown
from protocols.evolution import PatternCount
from protocols.evolution_config import SignalsConfig
from tests.evolving import signal, visit

MOST = 3


def test_the_tasks_that_were_visited_last_are_remembered():
    history = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    for version, task in enumerate(("a", "b", "c", "a", "d", "a")):
        history.add(visit(task, 4, version))
    assert list(history.state.tasks) == ["c", "d", "a"]
    assert len(history.surprise) == MOST
    assert len(history.p_values) == 1, "only task a was visited twice"
    assert [each.version_min for each in history.task("a").earlier()] == [0, 3]


def test_a_forgotten_task_counts_as_new():
    history = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    for version, task in enumerate(("a", "a", "b", "c", "d", "a")):
        history.add(visit(task, 4, version))
    assert history.task("a").earlier() == ()
    assert len(history.p_values) == 0


def test_the_patterns_that_occurred_last_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(histories, "MAX_PATTERNS", 10)
    monkeypatch.setattr(histories, "PATTERNS_FORGOTTEN", 4)
    history = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    for version in range(50):
        patterns = tuple(
            PatternCount(kind="tool", pattern=name, count=1) for name in ("ls", f"t{version}")
        )
        history.add(replace(visit("a", 4, version), patterns=patterns))
        assert len(history.state.patterns) <= 10
    assert history.pattern(("tool", "ls")).total == 50
    assert history.pattern(("tool", "")).total == 100
    assert history.share("tool", "t49").seen > 0
    assert history.share("tool", "t3").seen == 0
    copy = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    copy.state = history.state
    assert (len(copy.surprise), len(copy.p_values)) == (1, 1)


def test_signals_that_silence_nothing_any_more_are_forgotten():
    cool_down = CoolDown(8)
    for version in range(200):
        cool_down.start(signal(f"s{version}", f"t{version}", version=version))
    last = cool_down.state
    assert list(last.values()) == list(range(184, 200))
    assert cool_down.silences(*next(iter(last)), 190)
    copy = CoolDown(8)
    copy.state = last
    copy.start(signal("s200", "t200", version=200))
    assert list(copy.state.values()) == list(range(185, 201))


def test_a_signal_that_came_late_does_not_end_the_cool_down_of_a_newer_one():
    cool_down = CoolDown(8)
    for version in (10, 9):
        cool_down.start(signal("s", "t", version=version))
    [silent] = cool_down.state
    assert [cool_down.silences(*silent, version) for version in (17, 18)] == [
        True,
        False,
    ]
