"""The timeline keeps of each step what is drawn, and hides no extreme when it draws periods."""

from msgspec.structs import replace

from coevolve.history.drawn import DRAWN, SPEED
from coevolve.history.metric_docs import meaning_of
from coevolve.history.timeline import Bin, Timeline
from coevolve.report.page import page
from tests.coevolve.report.pages import data, stepped

(NAME,) = SPEED


def test_a_period_has_its_mean_and_its_extremes():
    timeline = Timeline()
    for step in (1, 2, 3, 5):
        report = replace(stepped(step), metrics={NAME: 1000.0 if step == 2 else 10.0, "own/x": 1.0})
        timeline.fold(report, step)
    assert timeline.binned(NAME, 10)[1] == Bin(2, 1, 1000.0, 1000.0, 1000.0)
    assert timeline.width(3) == 2
    assert timeline.binned(NAME, 3) == [
        Bin(last=2, steps=2, mean=505.0, low=10.0, high=1000.0),
        Bin(last=4, steps=1, mean=10.0, low=10.0, high=10.0),
        Bin(last=5, steps=1, mean=10.0, low=10.0, high=10.0),
    ]
    assert timeline.binned("own/x", 3) == []
    assert timeline.columns.keys() == {NAME}


def test_every_metric_that_is_drawn_is_explained():
    assert all(meaning_of(metric) for metric in DRAWN)


def test_a_page_of_many_steps_is_hardly_larger_and_shows_the_range_of_a_period():
    few = page(data([stepped(step, ("t", 4)) for step in range(1, 101)]))
    many = page(data([stepped(step, ("t", 4)) for step in range(1, 5001)]))
    assert len(many) < len(few) + 60_000
    assert "Each point is the mean of 100 steps, each bar their range." in many
