"""The choice of rollouts for a report, and how a browser shows them side by side."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace as changed
from msgspec.structs import replace as replaced
from tokenizers import Tokenizer

from coevolve.history import rollouts as chosen
from coevolve.history.rollouts import Group, Pieces, Sample, sample_of, shares
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.models.model_folder import TINY_FOLDER
from coevolve.report.page import write_report
from coevolve.report.sections.rollouts import rollouts_data
from protocols import columns
from protocols.config import PolicyConfig, RunConfig
from protocols.evolution import GroupSummary
from protocols.journal import Message
from protocols.rollouts import Action, FailedRollout, Rollout, Tokens
from tests import evolving
from tests.browser import needs_browser, opened
from tests.coevolve.report.pages import CONFIG, HOSTILE, data, whole_story

TOKENIZER = Tokenizer.from_file(str(TINY_FOLDER / "tokenizer.json"))
ASKED = "<u>How much space is used here?<a>"


def rollout(summary: GroupSummary, index: int, call: str, answer: str = "8") -> Rollout:
    """Return a rollout in which the policy wrote one call, each token with probability 1/2."""
    asked = TOKENIZER.encode(ASKED, add_special_tokens=False).ids
    wrote = TOKENIZER.encode(f"{call}<e>", add_special_tokens=False).ids
    mask = [0] * len(asked) + [1] * len(wrote)
    return Rollout(
        group_id=summary.group_id,
        group=summary.group,
        index=index,
        group_size=8,
        task_id=summary.task_id,
        seed=index,
        tokens=Tokens(
            token_ids=columns.int32([*asked, *wrote]),
            mask=columns.uint8(mask),
            logprobs=columns.float32([-0.6931472 * each for each in mask]),
            versions=columns.int32([summary.version_max if each else -1 for each in mask]),
        ),
        actions=(Action(turn=0, text=call, result=answer, failed=index > 0),),
        turns_passed=int(index == 0),
        turns_total=1,
        reward=float(index == 0),
        version_min=summary.version_max,
        version_max=summary.version_max,
        ended="finished" if index == 0 else "wrong",
        wall_s=1.0,
    )


def group(task: str, version: int, *calls: str) -> Group:
    summary = evolving.visit(task, 1, version=version, rollouts=len(calls))
    failed = FailedRollout(
        group_id=summary.group_id,
        group=version,
        index=len(calls),
        group_size=8,
        task_id=task,
        reason=HOSTILE,
        tries=2,
    )
    found = [rollout(summary, index, call) for index, call in enumerate(calls)]
    return Group(summary, [*found, failed])


GROUPS = (
    group("seed-1", 0, "du(human_readable=True)", "du(human_readable=False)", HOSTILE),
    group("seed-1", 4, "du(human_readable=True)", "ls()"),
    group("made-1", 5, "ls()", "cd(folder='a')"),
)


def recorded(groups: Sequence[Group]) -> list[Message]:
    """Return the records of groups: their rollouts, then their summary."""
    return [message for each in groups for message in (*each.rollouts, each.summary)]


async def sampled(
    path: Path,
    messages: Sequence[Message],
    config: RunConfig = CONFIG,
    first: Sequence[str] = (),
) -> Sample:
    journal = Journal.open(path)
    evolving.write(journal, messages)
    reader = LocalStore(journal)
    found = await sample_of(reader, await evolving.whole_fold(reader), config, first)
    journal.close()
    return found


async def test_the_groups_of_a_short_run_are_all_taken_in_order(tmp_path: Path):
    config = changed(CONFIG, policy=PolicyConfig(model="tiny"))
    found = await sampled(tmp_path, recorded(GROUPS), config)
    assert [each.summary.group for each in found.groups] == [0, 4, 5]
    assert [each.index for each in found.groups[0].rollouts] == [0, 1, 2, 3]
    assert found.finished == 3
    first = found.groups[0].rollouts[0]
    assert isinstance(first, Rollout)
    assert "".join(found.pieces.of(first.tokens)) == f"{ASKED}du(human_readable=True)<e>"


async def test_of_a_long_task_the_first_middle_and_newest_kept_groups_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chosen, "NEWEST", 1)
    groups = [group("seed-1", version, "ls()") for version in range(21)]
    dropped = [groups[0].summary, groups[1].summary]
    found = await sampled(tmp_path, [*dropped, *recorded(groups[2:])])
    assert [each.summary.group for each in found.groups] == [2, 10, 20]
    assert found.finished == 21


async def test_no_more_tokens_are_taken_than_a_page_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    groups = [group(f"task-{version}", version, "ls()") for version in range(9)]
    monkeypatch.setattr(chosen, "MOST_TOKENS", 3 * chosen.tokens_of(groups[0]))
    found = await sampled(tmp_path, recorded(groups))
    assert len(found.groups) == 3
    assert found.groups[-1].summary.group == 8


async def test_the_newest_group_of_a_suspect_task_is_taken_before_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    groups = [group(f"task-{version}", version, "ls()") for version in range(20)]
    monkeypatch.setattr(chosen, "MOST_TOKENS", 2 * chosen.tokens_of(groups[0]))
    found = await sampled(tmp_path, recorded(groups), first=["task-3"])
    assert [each.summary.group for each in found.groups] == [3, 19]


def test_without_a_tokenizer_a_token_is_its_number():
    tokens = rollout(GROUPS[0].summary, 0, "ls()").tokens
    first = columns.from_int32(tokens.token_ids)[0]
    assert Pieces(None).of(tokens)[0] == f"{first} "


def test_probabilities_are_those_of_sampled_tokens():
    tokens = rollout(GROUPS[0].summary, 0, "ls()").tokens
    assert set(shares(tokens)) == {-1, 500}
    assert [each >= 0 for each in shares(tokens)] == [bool(each) for each in tokens.mask]


def test_the_data_of_a_group_names_its_task_and_verdict():
    found = replace(data(whole_story()), sample=Sample(GROUPS, 9, Pieces(TOKENIZER)))
    first, _, made = rollouts_data(found)["groups"]
    assert (first["task"], first["version"], first["passed"], first["of"]) == ("seed-1", 0, 1, 3)
    assert made["verdict"].startswith("Admitted as learnable")
    assert made["turns"][0][1] == ["ls()"]
    assert [each["ended"] for each in first["rollouts"][:2]] == [
        "the conversation finished",
        "a turn ended in a wrong state or with a wrong answer",
    ]


def two_turns(summary: GroupSummary) -> Rollout:
    """Return a rollout on the task of `evolving` that fails in its second turn."""
    actions = (
        Action(turn=0, text="ls()", result="", failed=False),
        Action(turn=1, text="cd('src')", result="", failed=False),
    )
    failed = rollout(summary, 0, "ls()")
    return replaced(failed, actions=actions, turns_passed=1, turns_total=2, ended="wrong")


def test_a_failed_rollout_says_where_it_left_the_reference_and_links_to_the_life_of_its_task():
    summary = evolving.visit("seed-1", 0, version=4, rollouts=1)
    sample = Sample([Group(summary, [two_turns(summary)])], 1, Pieces(TOKENIZER))
    found = replace(data(whole_story()), sample=sample)
    (group,) = rollouts_data(found, {"task-seed-1"})["groups"]
    assert group["life"] == "#task-seed-1"
    assert group["rollouts"][0]["why"] == (
        "Turn 2 of 2 failed: the reference calls cd('docs'), this rollout called cd('src')."
    )
    assert "life" not in rollouts_data(found, {"task-other"})["groups"][0]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rollouts") / "report.html"
    sample = Sample(GROUPS, 9, Pieces(TOKENIZER))
    write_report(path, replace(data(whole_story()), sample=sample))
    return f"{path.as_uri()}#rollouts"


@needs_browser
def test_the_first_difference_of_calls_and_tokens_is_marked(report: str):
    with opened(report) as browser:
        side = browser.page.locator(".side article")
        browser.page.locator("[name=groups]").select_option("0")
        assert side.count() == 4
        assert side.nth(0).locator("mark").count() == 0
        assert "rollout 0: passed" in side.nth(0).inner_text()
        assert side.nth(1).locator("li mark").inner_text() == "differs from here"
        tokens = side.nth(1).locator(".tokens").inner_text()
        before, _, after = tokens.partition("differs")
        assert before == f"{ASKED}du(human_readable="
        assert after.startswith("F")
        assert "Reward 0, 0 of 1 turns; a turn ended in a wrong" in side.nth(1).inner_text()
        assert 'title="probability 50 %"' in side.nth(0).inner_html()
        assert "9 finished groups" in browser.page.content()


@needs_browser
def test_the_same_rollouts_of_a_group_stand_together(tmp_path: Path):
    same = group("seed-1", 0, "ls()", "ls()", "cd(folder='a')", "ls()")
    found = replace(data(whole_story()), sample=Sample([same], 1, Pieces(TOKENIZER)))
    path = tmp_path / "report.html"
    write_report(path, found)
    with opened(f"{path.as_uri()}#rollouts") as browser:
        titles = browser.page.locator(".side h4").all_inner_texts()
        assert [title.partition(":")[0] for title in titles[1:3]] == [
            "Version 0, rollouts 1, 3 (the same)",
            "Version 0, rollout 2",
        ]
        assert titles[0] == "Version 0, rollout 0: passed"
        assert len(titles) == 4


@needs_browser
def test_a_link_to_the_rollouts_of_a_task_chooses_its_groups(report: str):
    with opened(f"{report}-made-1") as browser:
        assert browser.page.locator("[name=task]").input_value() == "made-1"
        assert browser.page.locator(".side h4").first.inner_text().startswith("Version 5")
        browser.page.evaluate("location.hash = 'rollouts-seed-1'")
        browser.page.wait_for_function("document.querySelector('[name=task]').value === 'seed-1'")
        assert browser.page.locator("[name=groups] option").count() == 2


@needs_browser
def test_the_link_of_a_group_shows_the_life_of_its_task(report: str):
    with opened(report) as browser:
        browser.page.locator("[name=task]").select_option("made-1")
        browser.page.locator("#side-by-side a").click()
        browser.page.locator("#life h3:focus").wait_for()
        assert "made-1" in browser.page.locator("#life h3").inner_text()


@needs_browser
def test_filters_narrow_the_groups_and_two_versions_can_be_compared(report: str):
    with opened(report) as browser:
        form = browser.page.locator("#filters")
        options = form.locator("[name=groups] option")
        form.locator("[name=task]").select_option("seed-1")
        assert options.count() == 2
        form.locator("[name=version]").select_option("4")
        assert options.count() == 1
        form.locator("[name=version]").select_option("any")
        form.locator("[name=groups]").select_option(["0", "1"])
        titles = browser.page.locator(".side h4").all_inner_texts()
        assert sum(title.startswith("Version 0") for title in titles) == 4
        assert sum(title.startswith("Version 4") for title in titles) == 3


@needs_browser
def test_hostile_text_of_calls_and_failures_is_shown_as_text(report: str):
    with opened(report) as browser:
        browser.page.locator("[name=groups]").select_option("0")
        side = browser.page.locator(".side")
        assert "<script>alert(1)</script>" in side.inner_text()
        assert "\u202e" not in side.inner_text()
        assert side.locator("img, script").count() == 0


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (400, False),
        (1400, True),
        pytest.param(2000, False, marks=pytest.mark.exhaustive),
    ],
)
@needs_browser
def test_it_fits_and_passes_the_check_of_accessibility(report: str, width: int, dark: bool):
    with opened(report, width=width, dark=dark) as browser:
        browser.page.locator("[name=groups]").select_option("0")
        wide = browser.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        found = Axe().run(browser.page)
        assert found.violations_count == 0, found.generate_report()
