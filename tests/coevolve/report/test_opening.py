"""The first screen: whether the run learned and where it is weak, in a sentence and in pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from coevolve.history.series import RunSeries, Series
from coevolve.report.page import GROUPS, SECTIONS, page, write_report
from coevolve.report.sections.opening import opening, weaknesses
from protocols.config import RunConfig
from protocols.control import RunFinished
from protocols.journal import Message
from protocols.learning import Evaluation, TaskScore
from tests import evolving
from tests.browser import Browser, needs_browser, opened
from tests.coevolve.report.pages import CONFIG, HOSTILE, data, parsed, stepped, whole_story

WIDTHS = (390, 1440, 2000)
SCREENS = 6
FINDINGS = 5


def evaluated(version: int, passed: int, tasks: int = 40) -> Evaluation:
    """Return scores of tasks with the skill `ls`, of which the first ``passed`` are solved."""
    scores = [
        TaskScore(task_id="h1", turns_passed=int(n < passed), turns_total=1) for n in range(tasks)
    ]
    named = [msgspec.structs.replace(each, task_id=f"h1-{n}") for n, each in enumerate(scores)]
    return Evaluation(version=version, scores=(*named,), errors=0, wall_s=1.0)


def warm(step: int) -> Message:
    return msgspec.structs.replace(stepped(step, ("seed-1", 4)), stage="warm_start")


def told(messages: Sequence[Message], config: RunConfig = CONFIG) -> str:
    return parsed(opening(data(messages, config))).text


def test_the_verdict_says_whether_the_run_learned_beyond_chance():
    assert told([evaluated(0, 4), evaluated(9, 30), RunFinished(steps=9)]).startswith(
        "It learned: held-out success rose from 10.0 to 75.0 ± 6.6 %, beyond chance"
    )
    assert told([evaluated(0, 30), evaluated(9, 4)]).startswith("It got worse so far: ")
    level = told([evaluated(0, 20), evaluated(9, 22)])
    assert level.startswith("Nothing learned beyond chance so far: held-out success went from 50.0")
    assert "beyond chance." not in level


def test_the_verdict_of_a_run_with_one_score_or_none_claims_nothing():
    once = told([evaluated(0, 20), stepped(1, ("seed-1", 4))])
    assert once.startswith("Scored once, so nobody knows if it learned. Held-out success is 50.0 ±")
    assert "The thin line is the share of the rollouts in training" in once
    assert told([]).startswith("Not scored so far. No step has been taken yet. ")
    assert told([stepped(1, ("seed-1", 4)), RunFinished(steps=1)]).startswith("Not scored.")


def test_a_newest_version_without_a_score_is_named_with_the_command_that_scores_it():
    steps = [stepped(step, ("seed-1", 4)) for step in range(1, 10)]
    scores = [evaluated(0, 4), evaluated(6, 30)]
    found = told([*scores, *steps])
    assert "Version 9, the newest, has no held-out score; score it with: coevolve evaluate" in found
    assert "no held-out score" not in told([*scores, *steps, evaluated(9, 30)])
    assert "Version 9, the newest, has no held-out score" in told(steps)


def test_the_warm_start_and_the_loop_are_told_apart():
    steps = [warm(1), warm(2), stepped(3, ("seed-1", 4)), stepped(4, ("seed-1", 4))]
    scores = [evaluated(0, 0), evaluated(2, 20), evaluated(4, 36)]
    found = data([scores[0], *steps, *scores[1:]])
    text = parsed(opening(found)).text
    assert "(the warm start +50.0 ± 8.0 points, the loop +40.0 ± 7.8 points)" in text
    drawn = page(found)
    assert 'class="stage n0"' in drawn
    assert 'class="stage n1"' in drawn
    alone = told([scores[0], *steps[:2], scores[1]])
    assert "the warm start +50.0" in alone
    assert "the loop" not in alone.split("Tasks")[0]
    assert 'class="stage' not in page(data([scores[0], *steps[2:]]))


def test_the_weakest_skill_comes_first_with_its_change():
    found = data(whole_story())
    shares = [each.share for each in weaknesses(found)]
    assert shares == sorted(shares)
    assert weaknesses(found)[0].name == "rm"
    assert "Weakest: rm 0 %." in told(whole_story())
    labels = replace(found, skills={})
    assert [(each.name, each.first, each.share) for each in weaknesses(labels)] == [
        ("several turns", 0.0, 0.0),
        ("one turn", 0.0, 1.0),
    ]


def test_skills_of_training_are_named_as_such_if_held_out_tasks_have_none():
    found = replace(data([evolving.seed(), evolving.visit("seed-1", 2)]), skills={})
    assert "Weakest in training, over its newest groups: cd 25 %, ls 25 %." in (
        parsed(opening(found)).text
    )


def test_an_arm_without_synthesis_says_that_it_makes_no_tasks():
    static = msgspec.structs.replace(CONFIG, arm="static")
    assert "None: this arm makes no tasks." in told([], static)
    assert "1 of 3 candidates" not in told(whole_story(), static)
    assert "1 of 3 candidates admitted, from 2 signals" in told(whole_story())


def test_runs_that_are_compared_are_drawn_as_thin_lines():
    points = Series((0, 9), (0.1, 0.4), (0.1, 0.4), (0.1, 0.4), 0.4)
    series = [RunSeries("trial", 1, {}), RunSeries(HOSTILE, 1, {"val/success/all": points})]
    found = replace(data([evaluated(0, 4), evaluated(9, 30)]), series=series)
    drawn = opening(found)
    assert drawn.count("trace thin c1") == 1
    assert HOSTILE.split("\x00")[0] in parsed(drawn).text


def screens(browser: Browser) -> float:
    script = "document.documentElement.scrollHeight / innerHeight"
    return float(browser.page.evaluate(script))


@pytest.mark.parametrize("width", WIDTHS)
@needs_browser
def test_the_first_screen_holds_the_curve_and_the_page_is_short(tmp_path: Path, width: int):
    story = [evaluated(0, 2), warm(1), *whole_story(), evaluated(1, 20), evaluated(9, 36)]
    path = tmp_path / "report.html"
    write_report(path, data(story))
    with opened(path.as_uri(), width=width) as browser:
        view = browser.page
        assert view.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        curve = view.locator(".curve-panel .plane").bounding_box()
        assert curve is not None
        assert curve["y"] + curve["height"] < 900
        assert curve["width"] > width / 3
        if width > WIDTHS[0]:
            assert screens(browser) <= SCREENS
            for panel in (".weak-panel", ".made-panel"):
                box = view.locator(panel).bounding_box()
                assert box is not None
                assert box["y"] + box["height"] < 900
                assert box["x"] + box["width"] > width - 100  # the whole width is used
        assert view.locator("#findings ~ ul > li").count() <= FINDINGS
        assert len(view.screenshot()) > 10_000


@needs_browser
def test_a_link_a_print_and_the_menu_open_what_is_folded(tmp_path: Path):
    path = tmp_path / "report.html"
    write_report(path, data(whole_story()))
    shown = "name => document.getElementById(name).closest('details').open"
    with opened(f"{path.as_uri()}#skill-ls") as browser:
        view = browser.page
        assert view.evaluate(shown, "skills")
        assert not view.evaluate(shown, "pool")
        view.locator("nav summary", has_text="Tasks").click()
        view.locator("nav a", has_text="pool").click()
        view.wait_for_function(shown, arg="pool")  # after the address has changed
        assert view.locator("nav details[open]").count() == 0
        assert not view.evaluate(shown, "run")
        view.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert view.evaluate(shown, "run")
    assert [name for group in GROUPS.values() for name in group] == list(SECTIONS)
