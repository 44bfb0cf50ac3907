"""The charts of the report, in a browser."""

import re
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from coevolve.report.charts import (
    COUNT,
    Layer,
    Line,
    heat_map,
    line_chart,
    row_chart,
    stacked_chart,
)
from coevolve.report.markup import tag
from coevolve.report.page import document, write_report
from coevolve.report.scripts import library, own
from tests.browser import needs_browser, opened
from tests.coevolve.report.pages import HOSTILE, data, whole_story


@needs_browser
def test_every_kind_of_chart_is_drawn_and_shows_foreign_names_as_text(tmp_path: Path):
    lines = [
        Line("rising", ((0.0, 0.1), (4.0, 0.5)), ((0.0, 0.2), (0.4, 0.6)), strong=True),
        Line(HOSTILE, ((4.0, 0.25),)),
    ]
    layers = [Layer("seed", (2.0, 0.0)), Layer("made", (1.0, 4.0))]
    cells = {("ls", "1"): (3, 4), ("cd", "2"): (0, 8)}
    charts = (
        line_chart("Lines", lines, across="step", up="share", high=1.0),
        stacked_chart("Columns", ["1-2", "3-4"], layers, across="step", up="groups"),
        row_chart("Rows", [("signals", 1647), (HOSTILE, 3)], form=COUNT),
        heat_map("Cells", ["ls", "cd"], ["1", "2"], cells, across="step"),
    )
    path = tmp_path / "charts.html"
    heading = tag("h1", "Charts")
    page = document("Charts", tag("main", heading, *charts), scripts=[library(), own("charts")])
    path.write_text(page)
    with opened(path.as_uri()) as browser:
        drawn = browser.page.locator(".chart svg")
        drawn.nth(3).wait_for(state="attached")
        assert drawn.nth(0).locator(".role-mark.mark-line path").count() == 2
        assert "1,647" in drawn.nth(2).locator("text").all_text_contents()
        assert drawn.nth(0).locator(".role-mark.mark-area path").count() == 1
        assert drawn.nth(1).locator("path[aria-roledescription=bar]").count() == 3
        assert drawn.nth(2).locator("path[aria-roledescription=bar]").count() == 2
        assert "75" in (drawn.nth(3).text_content() or "")
        assert "</code></style>" in (drawn.nth(2).text_content() or "")
        assert browser.page.locator(".chart script, .chart img").count() == 0


@needs_browser
def test_the_charts_of_a_report_follow_the_theme_and_pass_the_check_of_accessibility(
    tmp_path: Path,
):
    path = tmp_path / "report.html"
    write_report(path, data(whole_story()))
    colours = set[str]()
    for dark in (False, True):
        with opened(path.as_uri(), dark=dark, height=20_000) as browser:
            browser.page.locator("#unfold").click()
            charts = browser.page.locator(".chart")
            browser.page.locator(".chart svg").nth(charts.count() - 1).wait_for(state="attached")
            line = charts.first.locator(".mark-line path").first
            colours.add(line.evaluate("(path) => getComputedStyle(path).stroke"))
            found = Axe().run(browser.page)
            assert found.violations_count == 0, found.generate_report()
    assert len(colours) == 2
    assert all(re.fullmatch(r"rgb\(\d+, \d+, \d+\)", colour) for colour in colours)
