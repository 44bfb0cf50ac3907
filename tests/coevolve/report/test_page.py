import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from coevolve.base.visible import UNSAFE
from coevolve.history.gathering import Gathering, gather
from coevolve.history.run_history import judged
from coevolve.history.series import RunSeries
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.report.page import SECTIONS, page, write_report
from coevolve.report.sections.lives import lives_data
from coevolve.report.sections.pool import composition
from coevolve.report.sections.signals import funnel
from coevolve.report.sections.success import gaps_of, held_out_by_skill, trained_by_skill
from protocols.config import RunConfig
from protocols.control import (
    RunStarted,
)
from protocols.errors import RunError
from protocols.journal import Append, Message, Receipt, StoredRecord
from protocols.learning import Evaluation, GroupDiscarded, TaskScore
from protocols.tasks import TaskText
from tests import evolving
from tests.coevolve.report.pages import (
    CONFIG,
    HOSTILE,
    Reported,
    data,
    parsed,
    scored,
    stepped,
    whole_story,
)

NO_CONVERSATION = TaskText(headline="cover 3 points of fifo, from 61.2 %")
EN_DASH = "\N{EN DASH}"


def test_the_page_is_complete_and_refers_to_nothing_outside():
    html = page(data(whole_story()))
    elements = parsed(html)
    references = [value for _, name, value in elements.attributes if name in ("src", "href")]
    assert all(value == "config.yaml" or value[0] == "#" for value in references)
    assert not {"link", "img", "iframe", "object"} & elements.names
    assert not [name for _, name, _ in elements.attributes if name.startswith("on")]
    ours = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert "@import" not in ours
    assert "url(" not in ours
    assert len(html) < 2_000_000


def test_every_link_of_the_page_has_a_target():
    found = data(whole_story())
    lives = lives_data(found)
    elements = parsed(page(found))
    for life in lives.values():
        elements.feed(life)
    targets = {value for _, name, value in elements.attributes if name == "id"} | lives.keys()
    links = {value[1:] for _, name, value in elements.attributes if name == "href"} - {"onfig.yaml"}
    assert links <= targets
    assert set(SECTIONS) <= links
    assert targets - set(SECTIONS) - lives.keys() == {
        "life",
        "lives",
        "unfold",
        "skill-ls",
        "skill-cd",
        "skill-rm",
    }


def test_every_chart_has_a_label_and_a_table_of_its_numbers():
    html = page(data(whole_story()))
    figures = re.findall(r"<figure>.*?</figure>", html, re.DOTALL)
    assert len(figures) > 8
    for each in figures:
        assert re.search(r'<div class="chart" role="img" aria-label="[^"]+"', each)
        assert "<details>" in each
        assert "<caption>" in each


def test_every_section_of_a_new_run_says_what_is_missing():
    for messages in ([], [RunStarted(run_id="r", config="{}")]):
        text = parsed(page(data(messages))).text
        for sentence in (
            "No policy version has been scored yet.",
            "No group has been trained on yet.",
            "No signal has been recorded.",
            "Nothing has been synthesized.",
            "No step has been taken yet.",
            "The loop has made no task yet.",
        ):
            assert sentence in text


def test_an_arm_without_synthesis_has_its_success_and_its_seed_tasks():
    config = msgspec.structs.replace(CONFIG, arm="static")
    messages = [evolving.seed(), scored(0, 0, 0), stepped(1, ("seed-1", 4)), scored(1, 1, 0)]
    text = parsed(page(data(messages, config))).text
    assert "none in this arm" in text
    assert "0 of 1 training groups (0.0 %)" in text
    assert "synthesized, learnable" not in text


@pytest.mark.parametrize("arm", ["full", "random", "placebo", "uniform", "static"])
def test_every_arm_can_be_reported(arm: str):
    parsed(page(data(whole_story(), msgspec.convert({"name": "x", "arm": arm}, RunConfig))))


def test_texts_of_tasks_and_models_are_escaped():
    story = [_spoilt(message) for message in whole_story()]
    elements = parsed(page(data(story)))
    assert "img" not in elements.names
    assert "</code></style><script>alert(1)</script>" in elements.text
    assert not UNSAFE.search(elements.text)


def test_synthesized_tasks_are_described_by_their_environment():
    text = parsed(page(data(whole_story()))).text
    assert "made-1: ls → cd" in text
    assert "List the files. ls()" in text
    told = parsed(page(data(whole_story(), text=NO_CONVERSATION))).text
    assert "made-1: no call" in told
    assert "Cover 3 points of fifo, from 61.2 %." in told


def test_the_page_shows_the_numbers_of_its_data():
    found = data(whole_story())
    text = parsed(page(found)).text
    assert "50.0 %" in text  # one of two held-out tasks at version 9
    assert found.costs.synthesized_groups == 4
    assert f"4 of {found.costs.groups} training groups (57.1 %)" in text
    for line in found.costs.lines():
        assert line.name + line.text in text
    for name, count in funnel(found.totals):
        assert f"{name}{count:.0f}" in text
    assert "Admitted as learnable: 2 of 4 probes succeeded at policy version 4." in text
    assert "60.0 %" in text  # of the CPU time is the models'
    assert "10 CPU seconds on the launcher's machine in 2 of 2 starts of the run" in text
    assert "Starts of the run: 2. Restarted parts: " in text


def test_the_head_names_the_folder_if_it_is_called_otherwise():
    for name, told in (("moved", True), ("trial", False)):
        found = replace(data([]), series=[RunSeries(name=name, width=1, metrics={})])
        assert (f"folder {name}" in parsed(page(found)).text) is told


def test_the_head_says_if_the_run_solved_nothing():
    words = "No scored version solved any held-out task"
    solved, unsolved = scored(1, 1, 0), scored(1, 0, 0)
    step = stepped(1, ("seed-1", 4))
    assert words in parsed(page(data([step, unsolved]))).text
    assert words not in parsed(page(data([step, solved]))).text


def test_held_out_success_by_skill_counts_only_reached_turns():
    cells = held_out_by_skill(data([scored(0, 1, 1)]))
    assert cells == {("ls", 0): (2, 2), ("cd", 0): (0, 1)}


def test_success_under_other_names_is_drawn_where_it_was_measured():
    both = (
        TaskScore(task_id="h1~1", turns_passed=0, turns_total=1),
        TaskScore(task_id="h2~1", turns_passed=3, turns_total=3),
    )
    versions = (
        scored(0, 1, 3),
        msgspec.structs.replace(scored(4, 1, 3), instances=both[:1]),
        msgspec.structs.replace(scored(8, 1, 3), instances=both),
        msgspec.structs.replace(scored(9, 1, 1), instances=both),
    )
    gaps = gaps_of(data(versions), "held_out")
    assert {version: (gap.given, gap.fresh) for version, gap in gaps.items()} == {
        8: (1.0, 0.5),
        9: (0.5, 0.5),
    }
    title = "Held-out tasks under other names"
    drawn = page(data(versions))
    assert f'aria-label="{title}' in drawn
    text = parsed(drawn).text
    assert "as given" in drawn
    assert "8+50.050.0" in text  # gap and standard error of version 8
    assert "9+0.0100.0" in text
    assert title not in page(data(versions[:2]))
    assert "trained on, under other names" not in drawn


def test_trained_tasks_under_other_names_have_a_chart_of_their_own():
    given = tuple(TaskScore(task_id=f"t{n}", turns_passed=1, turns_total=1) for n in range(4))
    fresh = tuple(TaskScore(task_id=f"t{n}~1", turns_passed=n % 2, turns_total=1) for n in range(4))
    measured = msgspec.structs.replace(scored(8, 1, 3), trained=given, instances=fresh)
    found = data([scored(0, 0, 1), measured])
    assert gaps_of(found, "held_out") == {}
    (gap,) = gaps_of(found, "trained").values()
    assert (gap.given, gap.fresh) == (1.0, 0.5)
    drawn = page(found)
    assert 'aria-label="Tasks that were trained on, under other names' in drawn
    assert "Held-out tasks under other names" not in drawn
    assert "8+50.028.9" in parsed(drawn).text


def test_training_success_counts_towards_every_skill_of_the_task():
    found = data([evolving.seed(), stepped(1, ("seed-1", 3)), stepped(2, ("seed-1", 5))])
    cells = trained_by_skill(found, [range(1, 3)])
    assert cells == {("ls", f"1{EN_DASH}2"): (8, 16), ("cd", f"1{EN_DASH}2"): (8, 16)}


def test_groups_on_synthesized_tasks_are_counted_by_label():
    found = data(whole_story())
    counts = composition(found, [range(1, 10)])
    assert counts == {("seed", 0): 3, ("learnable", 0): 4}


async def test_the_journal_is_read_in_order_and_with_its_times(tmp_path: Path):
    journal = Journal.open(tmp_path)
    evolving.write(journal, whole_story())
    found = await gather(LocalStore(journal), CONFIG, Reported())
    assert found.timeline.step == 9
    assert found.timeline.newest_ns >= found.timeline.started_ns > 0
    assert found.timeline.happenings[0].what == "started"
    assert found.costs.lines() == data(whole_story()).costs.lines()
    journal.close()


class CountingReader(LocalStore):
    """A reader that counts the records that it gave."""

    given = 0

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        found = await super().scan(topic, after, limit)
        self.given += len(found)
        return found


async def test_data_that_is_kept_up_to_date_reads_each_record_once(tmp_path: Path):
    journal = Journal.open(tmp_path)
    story = whole_story()
    evolving.write(journal, story[:-1])
    reader = CountingReader(journal)
    gathering = await Gathering.begin(reader, CONFIG, Reported())
    await gathering.newest()
    before = reader.given
    receipt = Receipt(producer="test", counter=len(story))
    journal.append(Append(records=(encode(story[-1]),), receipt=receipt)).result(10)
    found = await gathering.newest()
    assert reader.given - before <= 3  # the report's own fold, the totals and the costs
    assert page(found) == page(await gather(LocalStore(journal), CONFIG, Reported()))
    journal.close()


def test_the_report_replaces_the_old_one_as_a_whole(tmp_path: Path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, data([]))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(RunError, match=r"nowhere/report\.html: cannot be written"):
        write_report(tmp_path / "nowhere" / "report.html", data([]))


def test_a_page_can_be_made_at_any_moment_of_a_run():
    story = whole_story()
    for count in range(len(story)):
        parsed(page(data(story[:count])))


@pytest.mark.parametrize("kind", sorted({type(each).__name__ for each in whole_story()}))
def test_a_page_can_be_made_without_any_one_kind_of_record(kind: str):
    parsed(page(data([each for each in whole_story() if type(each).__name__ != kind])))


def test_a_group_of_failed_rollouts_counts_neither_as_success_nor_as_failure():
    failed = msgspec.structs.replace(
        evolving.visit("seed-1", 0, rollouts=0), version_min=-1, version_max=-1, errors=8
    )
    found = data([evolving.seed(), failed, evolving.visit("seed-1", 3, version=2)])
    assert [each.rollouts for each in judged(found.evolution.visits["seed-1"])] == [8]
    parsed(page(found))
    parsed(page(data([evolving.seed(), failed])))


def test_a_version_whose_scoring_failed_has_no_score():
    failed = Evaluation(version=0, scores=(), errors=240, wall_s=0.0)
    assert "No policy version has been scored yet." in parsed(page(data([failed]))).text
    text = parsed(page(data([failed, scored(9, 1, 2)]))).text
    assert "Held-out success is 50.0 ± " in text


def _spoilt(message: Message) -> Message:
    """Return the message with hostile text in every field that a task or a model can write."""
    if isinstance(message, GroupDiscarded):
        return message
    tree = msgspec.msgpack.decode(msgspec.msgpack.encode(message))

    def walk(value: object, key: str) -> object:
        match value:
            case dict():
                return {name: walk(each, name) for name, each in value.items()}
            case list() | tuple():
                return [walk(each, key) for each in value]
            case str() if key in FREE:
                return HOSTILE + value
            case _:
                return value

    return msgspec.msgpack.decode(msgspec.msgpack.encode(walk(tree, "")), type=type(message))


FREE = {
    "task_id",
    "signal_id",
    "candidate_id",
    "exploration_id",
    "instruction",
    "reference",
    "results",
    "skills",
    "summary",
    "failure_cause",
    "instability_pattern",
    "focus_pattern",
    "avoid_pattern",
    "text",
    "result",
    "start",
    "rule",
    "pattern",
    "found",
    "reason",
    "waiting",
    "synthesizer",
    "model",
}
