"""Weaknesses, skills, and the lives of tasks and signals: in words, and in a browser."""

from dataclasses import replace as changed
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace

from coevolve.history.annotated_source import AnnotatedSource, SourceLine
from coevolve.report.estimates import Estimate, PatternUse, change_of, skill_map
from coevolve.report.improvement import most_improved
from coevolve.report.links import task_anchor
from coevolve.report.page import write_report
from coevolve.report.sections import lives
from coevolve.report.sections.lineage import lineage_section
from coevolve.report.sections.lives import life_at, lives_data
from coevolve.report.sections.skills import skills_section
from coevolve.report.sections.sources import sources_section
from coevolve.report.sections.weaknesses import weaknesses_section
from protocols.evolution import OnPattern, PatternCount, Refused
from protocols.learning import Evaluation, TaskScore
from protocols.tasks import Seeded
from tests import evolving
from tests.browser import needs_browser, opened
from tests.coevolve.report.pages import CONFIG, HOSTILE, data, parsed, scored, whole_story

TOOLS = 457


def test_an_estimate_has_the_interval_of_wilson():
    assert Estimate(1, 8).text == "12 % [2, 47], 1/8"
    assert Estimate(0, 0).text == ""
    assert Estimate(0, 0).interval == (0.0, 1.0)


def test_a_change_compares_the_groups_that_the_rule_compared():
    change = change_of(data(whole_story()).evolution.signal_history("s1"), window=10)
    assert (change.before, change.now) == (Estimate(6, 8), Estimate(1, 8))
    assert change.after == Estimate(8, 8)


def test_a_change_ends_with_the_newest_groups_of_the_window():
    later = [evolving.visit("seed-1", successes, version=10 + successes) for successes in (1, 2)]
    history = data([*whole_story(), *later]).evolution.signal_history("s1")
    after = [change_of(history, window=window).after for window in (1, 2, 10)]
    assert after == [Estimate(2, 8), Estimate(3, 16), Estimate(11, 24)]


def test_the_page_says_what_was_forgotten_and_what_was_done():
    text = parsed(weaknesses_section(data(whole_story()))).text
    assert "Forgotten, in 1 signal: ls (1), cd (1)" in text
    assert (
        "Of the flagged tasks, 1 are no longer below their earlier success beyond chance, 0 still"
        in text
    )
    row = "ls, cd3s1seed-175 % [41, 93], 6/812 % [2, 47], 1/8"
    assert row in text
    assert "synthesized; candidates: 3made-11 parked, 1 duplicate100 % [68, 100], 8/8" in text
    assert "mkdir3s2toolwaitingnonenot tried since" in text


def test_a_rare_pattern_has_its_share_of_groups_before_and_after():
    about = OnPattern(kind="tool", pattern="cd")
    pattern = (PatternCount(kind="tool", pattern="cd", count=1),)
    other = (PatternCount(kind="tool", pattern="ls", count=2),)
    visits = [replace(evolving.visit("seed-1", 1, version=v), patterns=other) for v in range(4)]
    visits.append(replace(evolving.visit("seed-1", 1, version=9), patterns=pattern))
    change = PatternUse(visits, [about]).change(about, version=3)
    assert (change.now, change.after) == (Estimate(0, 4), Estimate(1, 1))


def test_a_run_in_which_nothing_was_forgotten_says_so():
    story = [each for each in whole_story() if each != evolving.signal("s1")]
    assert "No task was forgotten in training" in parsed(weaknesses_section(data(story))).text


def test_the_page_names_the_most_improved_tasks():
    text = parsed(lineage_section(data(whole_story()))).text
    assert "Most improved, of equals those with most groups: made-1 (+38 points), seed-1" in text


def test_a_skill_has_its_evidence_its_signals_and_its_tasks():
    skill = skill_map(data(whole_story()))["ls"]
    assert (skill.groups, skill.tasks, skill.signals["forgetting"]) == (5, 1, 1)
    assert (skill.admitted, skill.refused) == (1, 1)
    assert skill.newest == Estimate(22, 40)
    text = parsed(skills_section(data([*whole_story(), scored(4, 1, 1)]))).text
    assert "100 % [34, 100], 2/2" in text  # `ls` held out, newest


def test_the_life_of_a_task_goes_from_its_signal_to_its_instance_gap():
    given = (TaskScore(task_id="made-1", turns_passed=2, turns_total=2),)
    fresh = (TaskScore(task_id="made-1~1", turns_passed=0, turns_total=2),)
    both = Evaluation(
        version=9, scores=scored(9, 1, 1).scores, trained=given, instances=fresh, errors=0, wall_s=1
    )
    found = lives_data(data([*whole_story(), both]))["task-made-1"]
    text = parsed(found).text
    order = ["raised at step 3", "failure cause", "cd('docs')", "List the files.",
             "Probe at policy version 4: 0 of 4", "Admitted as learnable", "Success by group: 2/8",
             "+100.0 points"]  # fmt: skip
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)


def test_the_life_of_a_made_task_names_all_gates_and_the_limit_of_its_reader():
    text = parsed(lives_data(data(whole_story()))["task-made-1"]).text
    gates = "malformed, no effect, contradicted, duplicate, contaminated."
    assert f"gatesNone of the gates refused it: {gates}" in text
    read = evolving.verdict("c1", "s1", evolving.admitted("made-1"), reading=evolving.CONFIRMED)
    text = parsed(life_at(data([*whole_story(), read]), "task-made-1", {})).text
    assert (
        "Reader scripted: confirmed; picked 1 of 5 options (agreement 0.00, which confirms from "
        "the reader's own limit on, as validator.agreement is 0)" in text
    )
    config = replace(CONFIG, validator=replace(CONFIG.validator, agreement=0.5))
    text = parsed(life_at(data([*whole_story(), read], config), "task-made-1", {})).text
    assert "which confirms from 0.50 on (validator.agreement)" in text


def test_the_life_of_a_signal_says_why_a_candidate_was_refused():
    text = parsed(lives_data(data(whole_story()))["signal-s1"]).text
    assert "the candidate c3: Refused by the gate duplicate: 0.93 like seed-1" in text
    assert "On the flagged task: 100 % [68, 100], 8/8." in text


def test_a_page_holds_no_more_lives_than_fit_those_that_it_names_first_and_then_forgotten_ones(
    monkeypatch: pytest.MonkeyPatch,
):
    found = data(whole_story())
    named = [*map(task_anchor, most_improved(found)), "signal-s1"]
    assert len(named) > 1
    fitting = sum(len(life_at(found, each, {})) for each in named)
    monkeypatch.setattr(lives, "MOST_CHARACTERS", fitting)
    assert list(lives_data(found)) == named


def test_ids_with_any_characters_lead_to_their_lives():
    task = replace(evolving.seed(HOSTILE), origin=Seeded(source="x"))
    (anchor,) = lives_data(data([task]))
    assert anchor.isascii()
    assert parsed(life_at(data([task]), anchor, {})).names >= {"article", "code"}


LINES = (
    SourceLine(text="module top;", points=0, reached=0, newest=0),
    SourceLine(text=HOSTILE, points=6, reached=0, newest=0, missed=tuple("abcdef")),
    SourceLine(text="  if (d)", points=2, reached=1, newest=0, missed=("branch else",)),
)
SOURCES = (
    AnnotatedSource(name="full/top.sv", groups=1, lines=LINES[:1]),
    AnnotatedSource(name="part/top.sv", groups=3, lines=LINES),
)


def test_sources_say_line_by_line_what_was_reached():
    found = changed(data(whole_story()), sources=SOURCES)
    text = parsed(sources_section(found)).text
    assert text.index("part/top.sv: 1 of 8 points, 3 groups") < text.index("full/top.sv")
    assert "31 of 20 of 2  if (d)branch else" in text
    assert "a, b, c, d and 2 more" in text
    assert "has no sources" in parsed(sources_section(data([]))).text


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("lives") / "report.html"
    write_report(path, changed(data(whole_story()), sources=SOURCES))
    return path.as_uri()


@needs_browser
def test_links_show_lives_one_at_a_time(report: str):
    with opened(f"{report}#task-made-1") as browser:
        life = browser.page.locator("#life")
        assert life.locator("h3").inner_text().startswith("Task made-1")
        assert browser.page.evaluate("document.activeElement.textContent").startswith("Task made-1")
        life.get_by_role("link", name="seed-1").click()
        life.get_by_text("grammar:static").wait_for()
        life.get_by_role("link", name="s1").first.click()
        life.get_by_text("Refused by the gate duplicate").wait_for()
        browser.page.evaluate("location.hash = 'task-none'")
        life.get_by_text("`coevolve board`").wait_for()


@needs_browser
def test_a_life_that_the_page_does_not_hold_is_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = data(whole_story())
    monkeypatch.setattr(lives, "MOST_CHARACTERS", len(life_at(found, "task-seed-1", {})) - 1)
    path = tmp_path / "report.html"
    write_report(path, found)
    held = {f"#{each}" for each in lives_data(found)}
    script = "[...document.querySelectorAll(\"a[href^='#task-'], a[href^='#signal-']\")]"
    with opened(path.as_uri()) as browser:
        links = browser.page.evaluate(f"{script}.map(each => each.hash)")
        assert set(links) <= held
        assert "seed-1" in (browser.page.locator("main").text_content() or "")


@needs_browser
def test_457_skills_can_be_filtered_and_sorted_by_keyboard(tmp_path: Path):
    path = tmp_path / "report.html"
    many = replace(evolving.seed("many"), skills=tuple(f"tool_{n:03}" for n in range(TOOLS)))
    write_report(path, data([many, *whole_story()]))
    with opened(f"{path.as_uri()}#skills") as browser:
        table = browser.page.get_by_role("group", name="Skills, the lowest success first")
        rows = table.locator("tbody tr:not([hidden])")
        assert rows.count() == TOOLS + 3
        browser.page.get_by_label("Rows with these words: Skills").fill("tool_45")
        assert rows.count() == 7
        browser.page.get_by_label("Rows with these words: Skills").fill("")
        head = table.get_by_role("button", name="made tasks with it")
        head.press("Enter")
        head.press("Enter")
        column = table.get_by_role("columnheader", name="made tasks with it")
        assert column.get_attribute("aria-sort") == "descending"
        assert rows.first.locator("th").inner_text() in {"ls", "cd"}


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (400, True),
        (1400, False),
        pytest.param(2000, True, marks=pytest.mark.exhaustive),
    ],
)
@needs_browser
def test_a_life_fits_and_passes_the_check_of_accessibility(report: str, width: int, dark: bool):
    with opened(f"{report}#signal-s1", width=width, dark=dark) as browser:
        browser.page.locator("#life h3").wait_for()
        browser.page.locator("#unfold").click()
        assert browser.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        found = Axe().run(browser.page)
        assert found.violations_count == 0, found.generate_report()


def test_the_report_is_written_with_hostile_candidates(tmp_path: Path):
    reason = evolving.verdict("c3", "s1", Refused(gate="duplicate", found=HOSTILE))
    write_report(tmp_path / "report.html", data([*whole_story(), reason]))
    drawn = (tmp_path / "report.html").read_text("utf-8").split("<script>")[0]
    assert "<img" not in drawn
    assert "&lt;img" in drawn
