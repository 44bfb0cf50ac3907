"""Tests of studies: their files, their runs, and the tables of outcomes."""

import fcntl
from collections.abc import Mapping
from functools import partial
from html import escape
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from coevolve.base.terminal import Terminal
from coevolve.cli.main import coevolve
from coevolve.commands.compare import (
    Outcome,
    outcome_of,
    print_plan,
    runs_at_once,
)
from coevolve.commands.compared import PAGE, print_tables, tables, total_variation, write_page
from coevolve.commands.grid import LOCK, run_grid
from coevolve.commands.study import Study, plans_of, study_of
from coevolve.estimate.memory import expected
from protocols.errors import ConfigError, RunError

SMALLEST = (
    *("learner.steps=1", "learner.groups_per_step=1", "rollout.group_size=2"),
    *("rollout.in_flight_groups=1", "evaluator.every=1", "environment.demonstrations=1"),
    *("environment.tools=4", "environment.links=4", "environment.chains=2"),
)
STUDY = Study(
    run_file="toolbox",
    seeds=(0, 1, 2),
    settings=SMALLEST,
    arms={"explore": ("arm=random",), "oracle": ("arm=oracle",)},
    contrasts=(("oracle", "explore"),),
    gap=("explore", "oracle"),
    last_scores=2,
)


READ = partial(outcome_of, is_whole=False)


def outcome(end: float, made: Mapping[str, int]) -> Outcome:
    scores = {0: 0.2, 1: end - 0.02, 2: end + 0.02}
    return Outcome(scores=scores, made=dict(made), signals={"boundary": 3}, rollouts=10, tokens=90)


OUTCOMES = {
    ("explore", 0): outcome(0.30, {"a": 2, "b": 2}),
    ("explore", 1): outcome(0.40, {"a": 2, "b": 2}),
    ("explore", 2): outcome(0.50, {"a": 2, "b": 2}),
    ("oracle", 0): outcome(0.41, {"a": 4}),
    ("oracle", 1): outcome(0.50, {"b": 4}),
    ("oracle", 2): outcome(0.60, {"a": 4}),
}


def test_as_many_runs_are_made_at_a_time_as_free_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    study = study_of("quickstart")
    plans = plans_of(study, study.seeds[:1])
    parts = expected(plans[0].config, tmp_path, imitates_others=True)
    taken = sum(size or 0 for size in parts.values())
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    for free, fitting in ((0.5, 1), (1.5, 1), (3.5, 3), (9.5, 4)):
        memory = SimpleNamespace(available=int(free * taken))
        monkeypatch.setattr("psutil.virtual_memory", lambda memory=memory: memory)
        assert runs_at_once(plans, tmp_path) == fitting


def test_the_carried_study_names_arms_contrasts_and_seeds():
    study = study_of("toolbox")
    assert {"explore", "coverage", "placebo", "oracle"} <= set(study.arms)
    plans = plans_of(study, study.seeds[:2])
    assert len(plans) == 2 * len(study.arms)
    assert [plan.config.seed for plan in plans[: len(study.arms)]] == [study.seeds[0]] * len(
        study.arms
    )
    assert len({plan.name for plan in plans}) == len(plans)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run_file: toolbox", r"\$\.seeds.*\n.*\$\.arms"),
        (
            "{run_file: toolbox, seeds: [0, 1], arms: {a: []}, contrasts: [[a, b]]}",
            "'b' is none of the arms, which are a",
        ),
        ("{run_file: toolbox, seeds: [0], arms: {a: []}, contrasts: []}", r"\$\.seeds"),
        (
            "{run_file: toolbox, seeds: [0, 1], arms: {a/b: []}, contrasts: []}",
            r"\$\.arms.*1 to 40 letters",
        ),
        ("{run_file: toolbox, seeds: [0, 1], arms: {}, contrasts: []}", r"\$\.arms"),
        (
            "{run_file: toolbox, seeds: [1, 1], arms: {a: []}, contrasts: []}",
            r"\$\.seeds: needs different seeds, found \[1, 1\]",
        ),
        (
            "{run_file: toolbox, seeds: [0, 1], arms: {a: []}, contrasts: [[a, a]]}",
            "needs two different arms, found a twice",
        ),
        (
            "{run_file: study.yam, seeds: [0, 1], arms: {a: []}, contrasts: []}",
            r"\$\.run_file: study.yam: there is no such run file",
        ),
        ("{run_file: 7, seeds: [0, 1], arms: {a: []}, contrasts: []}", r"\$\.run_file"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_faulty_study_is_refused(tmp_path: Path, text: str, message: str):
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        study_of(f"{tmp_path}/study.yaml")


def test_an_unknown_study_is_refused_with_the_carried_ones():
    with pytest.raises(ConfigError, match=r"there is no such study; name a file, or one of.*toolb"):
        study_of("nothing")


def test_what_a_run_lacks_is_told_before_any_run(tmp_path: Path):
    (tmp_path / "one.yaml").write_text("{name: one, policy: {model: elsewhere}}")
    (tmp_path / "study.yaml").write_text(
        "{run_file: one.yaml, seeds: [0, 1], arms: {a: []}, contrasts: []}"
    )
    words = ("compare", f"{tmp_path}/study.yaml", "--runs", f"{tmp_path}/runs")
    done = CliRunner().invoke(coevolve, words)
    assert isinstance(done.exception, ConfigError)
    assert "policy.model: needs" in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_a_setting_of_an_arm_is_checked_before_any_run(tmp_path: Path):
    (tmp_path / "study.yaml").write_text(
        "{run_file: quickstart, seeds: [0, 1], arms: {a: [arm=oracle]}, contrasts: []}"
    )
    done = CliRunner().invoke(coevolve, ["compare", f"{tmp_path}/study.yaml"])
    assert isinstance(done.exception, ConfigError)
    assert "oracle chooses among the cells of an environment" in str(done.exception)


def test_total_variation():
    assert total_variation({"a": 1}, {"a": 7}) == 0
    assert total_variation({"a": 1}, {"b": 7}) == total_variation({}, {"b": 7}) == 1
    assert total_variation({}, {}) == 0
    assert total_variation({"a": 1, "b": 1}, {"a": 3, "b": 1}) == pytest.approx(0.25)


def test_the_tables(capsys: pytest.CaptureFixture[str]):
    print_tables(tables(STUDY, OUTCOMES), Terminal(width=200))
    text = capsys.readouterr().out
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if "│" in line}
    contrast = [each.strip() for each in rows["oracle - explore"].split("│")[1:-1]]
    assert contrast[1:4] == ["3", "+10.3 [+8.9, +11.8]", "0.250"]
    explore = [line for line in text.splitlines() if line.startswith("│ explore ")]
    assert "40.0 [15.2, 64.8]" in explore[0]
    oracle = [line for line in text.splitlines() if line.startswith("│ oracle ")]
    assert "1.00 [1.00, 1.00]" in oracle[0]
    assert [each.strip() for each in oracle[-1].split("│")[2:4]] == ["0.50", "0.67"]


def test_the_page_has_a_curve_of_each_arm_and_the_tables(tmp_path: Path):
    every = tables(STUDY, OUTCOMES)
    text = write_page("small", STUDY, OUTCOMES, every, tmp_path).read_text()
    assert (tmp_path / PAGE).is_file()
    assert text.count("<polyline") >= len(STUDY.arms)
    for each in every:
        assert escape(each.caption) in text
        assert all(cell in text for row in each.rows for cell in row)


def test_runs_that_other_code_made_are_named():
    captions = [each.caption for each in tables(STUDY, OUTCOMES)]
    mixed = OUTCOMES | {("oracle", 2): msgspec.structs.replace(OUTCOMES["oracle", 2], code="1f")}
    *others, named = tables(STUDY, mixed)
    assert [each.caption for each in others] == captions
    assert [(row[0], row[1]) for row in named.rows] == [("unknown", "5"), ("1f", "1")]
    assert named.rows[1][2] == "oracle 2"


@pytest.mark.parametrize("seeds", [2, 3])
def test_a_plan_tells_when_nothing_can_be_established(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seeds: int
):
    plans = plans_of(STUDY, STUDY.seeds[:seeds])
    print_plan(STUDY, plans, tmp_path, Terminal(width=400))
    text = capsys.readouterr().out
    assert f"{2 * seeds} runs of toolbox, of which {2 * seeds} are missing" in text
    assert f"is {2 / 2**seeds:.3f}: nothing can be established" in text


def test_two_commands_make_no_runs_in_one_folder(tmp_path: Path):
    with (tmp_path / LOCK).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process makes runs there"):
            run_grid((), tmp_path, READ)
    (tmp_path / "run.json").touch()
    with pytest.raises(RunError, match="needs a folder for several runs, found a run"):
        run_grid((), tmp_path, READ)


def test_a_run_is_made_once_and_a_cut_off_one_anew(tmp_path: Path):
    plans = plans_of(STUDY, (0,))[:1]
    folder = tmp_path / plans[0].name
    (folder / "store").mkdir(parents=True)  # a run that was killed at once
    (folder / "run.json").write_text("{}")
    made = run_grid(plans, tmp_path, READ, by="coevolve.loop")
    found = made["explore", 0]
    assert sorted(found.scores) == [0, 1]
    assert found.rollouts >= 2
    assert not (folder / "checkpoints").exists()
    kept = tmp_path / f"{plans[0].name}.json"
    kept.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, tokens=12345)))
    again = run_grid(plans, tmp_path, READ, by="coevolve.loop")
    assert again["explore", 0].tokens == 12345


def test_a_run_that_fails_names_its_log(tmp_path: Path):
    study = msgspec.structs.replace(STUDY, settings=(*SMALLEST, "policy.model=nowhere"))
    with pytest.raises(RunError, match=r"explore-0-\w+: has to finish.*\.log"):
        run_grid(plans_of(study, (0,))[:1], tmp_path, READ, by="coevolve.loop")
