"""The timeline keeps of each step what is drawn, and a page does not grow with the steps."""

from msgspec.structs import replace

from coevolve.history.metric_docs import meaning_of
from coevolve.history.series import DRAWN, WAIT
from coevolve.history.timeline import Timeline
from coevolve.report.page import page
from tests.coevolve.report.pages import data, stepped


def test_a_timeline_keeps_the_metrics_that_are_drawn_and_no_others():
    timeline = Timeline()
    for step in (1, 2, 5):
        timeline.fold(replace(stepped(step), metrics={WAIT: 10.0 * step, "own/x": 1.0}), step)
    assert timeline.columns.keys() == {WAIT}
    assert list(timeline.columns[WAIT].steps) == [1, 2, 5]
    assert list(timeline.columns[WAIT].values) == [10.0, 20.0, 50.0]


def test_every_metric_that_is_drawn_is_explained():
    assert all(meaning_of(metric) for metric in DRAWN)


def test_a_page_of_many_steps_is_hardly_larger():
    few = page(data([stepped(step, ("t", 4)) for step in range(1, 101)]))
    many = page(data([stepped(step, ("t", 4)) for step in range(1, 5001)]))
    assert len(many) < len(few) + 60_000
