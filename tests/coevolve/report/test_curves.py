"""The curves of the metrics, in a browser."""

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from coevolve.history.series import read_series
from coevolve.report.page import write_report
from tests.browser import needs_browser, opened
from tests.coevolve.report.pages import HOSTILE, data, parsed, whole_story

STEPS = 60


def line(step: int, shift: float) -> dict[str, float]:
    noise = (-1) ** step
    return {
        "step": step,
        "actor/entropy": 1.0 + shift + 0.1 * noise,
        "critic/rewards/mean": step / STEPS + shift,
        "own/number": float(step),
        "val/success/one turn": 0.5,
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the metrics of two runs."""
    folder = tmp_path_factory.mktemp("report")
    runs = []
    for place, name in enumerate(("first", HOSTILE)):
        path = folder / f"{place}.jsonl"
        lines = [json.dumps(line(step, 0.5 * place)) + "\n" for step in range(1, STEPS + 1)]
        path.write_text("".join(lines))
        runs.append(read_series(path, name))
    found = data(whole_story())
    write_report(folder / "report.html", replace(found, series=runs))
    return folder / "report.html"


def curve(browser: Page, metric: str) -> str:
    figure = browser.locator(f'figure[data-metric="{metric}"]')
    figure.scroll_into_view_if_needed()
    figure.locator("svg path").first.wait_for(state="attached")
    return figure.inner_html()


@needs_browser
def test_every_metric_is_drawn_with_its_meaning_under_the_heading_of_the_page(report: Path):
    with opened(f"{report.as_uri()}#metrics") as browser:
        curve(browser.page, "actor/entropy")
        groups = browser.page.locator(".group > summary").all_inner_texts()
        assert groups == [
            "Scores (1)",
            "Groups and rewards of a step (1)",
            "Losses and optimizer (1)",
            "Other (1)",
        ]
        entropy = browser.page.locator('figure[data-metric="actor/entropy"]')
        assert "entropy of the policy on its own tokens" in entropy.inner_text()
        assert entropy.locator("svg .mark-line path").count() == 4  # drawn and smoothed, two runs


@needs_browser
def test_smoothing_takes_the_noise_away(report: Path):
    with opened(f"{report.as_uri()}#metrics") as browser:
        curve(browser.page, "actor/entropy")
        entropy = browser.page.locator('figure[data-metric="actor/entropy"]')
        strong = entropy.locator('svg .mark-line path[stroke-width="2"]').first
        before = heights(strong.get_attribute("d") or "")
        browser.page.locator("[name=smoothing]").fill("0.9")
        browser.page.wait_for_timeout(200)
        after = heights(strong.get_attribute("d") or "")
        assert swing(after) < 0.3 * swing(before)


@needs_browser
def test_dragging_across_one_curve_zooms_all_and_a_button_shows_the_whole_again(report: Path):
    with opened(f"{report.as_uri()}#metrics") as browser:
        curve(browser.page, "critic/rewards/mean")
        plot = browser.page.locator('figure[data-metric="critic/rewards/mean"] svg')
        box = plot.bounding_box()
        assert box is not None
        browser.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50)
        browser.page.mouse.down()
        browser.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 60, steps=5)
        browser.page.mouse.up()
        browser.page.wait_for_timeout(200)
        low = float(browser.page.locator("[name=from]").input_value())
        high = float(browser.page.locator("[name=to]").input_value())
        assert STEPS * 0.4 < low < high < STEPS * 0.8
        browser.page.locator("[name=whole]").click()
        assert browser.page.locator("[name=from]").input_value() == ""


@needs_browser
def test_the_pointer_and_the_arrow_keys_show_the_values_of_a_step(report: Path):
    with opened(f"{report.as_uri()}#metrics") as browser:
        curve(browser.page, "critic/rewards/mean")
        figure = browser.page.locator('figure[data-metric="critic/rewards/mean"]')
        assert figure.locator("output").inner_text().startswith("newest first 1, ")
        plot = figure.locator(".plot")
        plot.focus()
        for _ in range(3):
            browser.page.keyboard.press("ArrowRight")
        assert figure.locator("output").inner_text().startswith("step 3: first 0.05, ")
        plot.hover()
        assert re.match(r"step (29|30|31|32): ", figure.locator("output").inner_text())


@needs_browser
def test_a_run_can_be_hidden_and_a_metric_found(report: Path):
    with opened(f"{report.as_uri()}#metrics") as browser:
        curve(browser.page, "own/number")
        figure = browser.page.locator('figure[data-metric="own/number"]')
        browser.page.locator("[name=run]").nth(1).uncheck()
        browser.page.wait_for_timeout(200)
        assert figure.locator('svg .mark-line path[stroke-width="2"]').count() == 1
        browser.page.locator("[name=find]").fill("entropy")
        assert not figure.is_visible()
        assert browser.page.locator('figure[data-metric="actor/entropy"]').is_visible()


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (400, False),
        (1400, True),
        *(
            pytest.param(width, dark, marks=pytest.mark.exhaustive)
            for width, dark in ((400, True), (1400, False), (2000, False), (2000, True))
        ),
    ],
)
@needs_browser
def test_the_page_fits_its_window_and_passes_the_check_of_accessibility(
    report: Path, width: int, dark: bool
):
    with opened(f"{report.as_uri()}#metrics", width=width, dark=dark) as browser:
        curve(browser.page, "own/number")
        wide = browser.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        found = Axe().run(browser.page)
        assert found.violations_count == 0, found.generate_report()


@needs_browser
def test_text_of_a_run_is_no_markup_and_no_script_but_our_own_may_run(report: Path):
    elements = parsed(report.read_text())
    assert not {"img"} & elements.names
    with opened(f"{report.as_uri()}#metrics") as browser:
        refused = "const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
        browser.page.evaluate(f"{refused} document.body.append(s)")
        assert browser.page.evaluate("window.bad") is None
        assert any("Content Security Policy" in fault for fault in browser.faults)
        browser.faults.clear()


def heights(path: str) -> list[float]:
    return [float(y) for y in re.findall(r"[ML][\d.]+,([\d.]+)", path)]


def swing(values: list[float]) -> float:
    """The mean change from point to point, without the first points."""
    late = values[len(values) // 2 :]
    return math.fsum(abs(b - a) for a, b in pairwise(late)) / len(late)
