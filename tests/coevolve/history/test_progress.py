import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.history.evolution_totals import EvolutionTotals
from coevolve.history.metrics_file import MetricsFile, kept_bytes
from coevolve.history.progress import HELD_OUT, Progress
from coevolve.history.score import Score
from coevolve.screen.facts import score_tables
from protocols.control import RunFinished
from protocols.evolution import Parked, Refused
from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Evaluation,
    GroupDiscarded,
    StepReport,
    TaskScore,
    TrainedGroup,
    Use,
    WarmStartEnded,
)
from tests.evolving import admission, verdict

LABELS = {"a": ("one turn",), "b": ("several turns",), "c": ("several turns",)}


def evaluated(version: int, **passed: int) -> Evaluation:
    return Evaluation(
        version=version,
        scores=tuple(
            TaskScore(task_id=task, turns_passed=turns, turns_total=2)
            for task, turns in passed.items()
        ),
        errors=0,
        wall_s=1.5,
    )


def means(scores: Mapping[Any, Score]) -> dict[Any, float]:
    return {key: score.mean for key, score in scores.items()}


def test_a_task_counts_under_each_label_if_every_turn_passed():
    progress = Progress(LABELS)
    progress.fold(evaluated(40, a=2, b=1, c=2))
    assert means(progress.evaluations[40]) == {"all": 2 / 3, "one turn": 1.0, "several turns": 0.5}


def covered(version: int, **shares: float) -> Evaluation:
    scores = tuple(
        TaskScore(
            task_id=task,
            turns_passed=int(share >= 0.9),
            turns_total=1,
            measures={"coverage": share},
        )
        for task, share in shares.items()
    )
    return Evaluation(version=version, scores=scores, errors=0, wall_s=1.0)


def titles(progress: Progress) -> list[str]:
    """Return the titles of all tables."""
    names = (each.plain.partition(", %")[0] for each in score_tables(progress, 80))
    return [f"{name}, %" for name in names if name in progress.tables]


def test_designs_are_reported_by_coverage_with_held_out_ones_separate():
    progress = Progress({"a": ("seen designs",), "b": (HELD_OUT,), "c": (HELD_OUT,)})
    progress.fold(covered(0, a=1.0, b=0.5, c=0.25))
    progress.fold(covered(9, a=0.25, b=0.75, c=0.5))
    coverage = means(progress.measured["coverage"][9])
    assert coverage == {"all": 0.5, "seen designs": 0.25, HELD_OUT: 0.625}
    success = means(progress.evaluations[0])
    assert success == {"all": 1 / 3, "seen designs": 1.0, HELD_OUT: 0.0}
    assert means(progress.held_out()) == {0: 0.375, 9: 0.625}
    assert titles(progress) == ["coverage, %", "success, %"]


def test_a_scenario_is_solved_if_all_its_variants_are():
    passed = {"x_1": 1, "x_2": 1, "y_1": 1, "y_2": 0}
    scores = tuple(
        TaskScore(task_id=task, turns_passed=turns, turns_total=1, scenario=task[0])
        for task, turns in passed.items()
    )
    progress = Progress({"x_1": ("easy",), "x_2": ("easy",), "y_1": ("hard",), "y_2": ("hard",)})
    progress.fold(Evaluation(version=3, scores=scores, errors=0, wall_s=1.0))
    assert means(progress.evaluations[3]) == {"all": 0.75, "easy": 1.0, "hard": 0.5}
    assert means(progress.scenarios[3]) == {"all": 0.5, "easy": 1.0, "hard": 0.0}
    assert (progress.measure, progress.scenarios[3]["all"].tasks) == ("success", 2)
    assert titles(progress) == ["success, %", "scenarios, %"]
    assert progress.scenarios[3]["all"].ends in score_tables(progress, 80)[6].plain


def test_without_coverage_versions_are_reported_by_success():
    progress = Progress(LABELS)
    progress.fold(evaluated(40, a=2, b=1, c=2))
    assert means(progress.held_out()) == {40: 2 / 3}
    assert not progress.measured
    assert titles(progress) == ["success, %"]


def test_a_table_fits_its_width_with_the_first_and_the_newest_versions():
    progress = Progress(LABELS)
    for version in range(0, 160, 10):
        progress.fold(evaluated(version, a=2, b=1, c=2))
    lines = score_tables(progress, 80)
    heading = " ".join(lines[0].plain.split())
    assert heading.startswith("success, % step 0 step 1")
    assert heading.endswith("step 150 std error 95 % interval tasks")
    assert all(70 < each.cell_len <= 80 for each in lines)
    assert score_tables(progress, 240)[0].plain.count("step") == 16


def test_a_version_without_any_score_has_no_table():
    progress = Progress(LABELS)
    progress.fold(Evaluation(version=0, scores=(), errors=3, wall_s=1.0))
    assert not score_tables(progress, 80)


def test_discards_are_counted_by_reason():
    progress = Progress({})
    for reason in ("stale", "failed", "stale"):
        progress.fold(
            GroupDiscarded(
                group_id="g",
                group=0,
                task_id="t",
                reason=reason,
                successes=0,
                rollouts=0,
                groups_consumed=1,
            )
        )
    assert progress.discarded == {"stale": 2, "failed": 1}


def stepped(step: int, *groups: tuple[int, Use]) -> StepReport:
    trained = (
        TrainedGroup(
            group_id=f"{step}-{place}",
            group=place,
            task_id="t",
            sequences=(1, 2),
            successes=successes,
            use=use,
        )
        for place, (successes, use) in enumerate(groups)
    )
    return StepReport(
        step=step, groups=tuple(trained), weights_digest="", groups_consumed=0, metrics={}
    )


def test_each_source_says_its_groups_tokens_and_gradient_norm():
    progress = Progress({})
    uses: list[tuple[int, Use]] = [(1, "policy_gradient"), (0, "imitation"), (0, "imitation")]
    metrics = {
        "source/objective/tokens": 300.0,
        "source/imitation/tokens": 60.0,
        "source/replay/tokens": 40.0,
        "source/replay/rows": 5.0,
        "source/objective/grad_norm": 0.5,
        "source/imitation/grad_norm": 2.0,
        "source/replay/grad_norm": 1.0,
    }
    progress.fold(msgspec.structs.replace(stepped(1, *uses, (0, "nothing")), metrics=metrics))
    assert dict(progress.teaching.sources()) == {
        "policy gradient": "1.0 groups (25 %), 75 % of tokens, gradient norm 0.5",
        "imitation": "2.0 groups (50 %), 15 % of tokens, gradient norm 2",
        "replay": "5.0 references, 10 % of tokens, gradient norm 1",
    }
    alone = Progress({})
    alone.fold(stepped(1, (1, "policy_gradient")))
    assert [source for source, _ in alone.teaching.sources()] == ["policy gradient"]


@pytest.mark.parametrize(
    ("groups", "turns", "words"),
    [
        ([(0, "nothing"), (0, "nothing")], 0, "from rewards: no rollout succeeded"),
        ([(0, "imitation"), (0, "nothing")], 0, "imitate for more steps"),
        ([(0, "imitation"), (0, "nothing")], 2, ""),
        ([(2, "nothing"), (0, "imitation")], 2, "from rewards: in no group did they differ"),
        ([(1, "policy_gradient")], 0, "No scored version solved any held-out task"),
        ([(1, "imitation")], 2, ""),
        ([(1, "policy_gradient"), (0, "nothing")], 2, ""),
    ],
)
def test_a_run_that_learned_nothing_says_so(groups: list[tuple[int, Use]], turns: int, words: str):
    progress = Progress(LABELS)
    for message in (evaluated(0, a=0), stepped(1, *groups), evaluated(1, a=turns)):
        progress.fold(message)
    assert words in progress.lesson()
    assert bool(words) == bool(progress.lesson())
    assert not Progress(LABELS).lesson()


def test_no_lesson_rests_on_version_0_alone_or_repeats_what_the_run_does():
    before = Progress(LABELS)
    for message in (evaluated(0, a=0), stepped(1, (1, "policy_gradient"))):
        before.fold(message)
    assert before.lesson() == ""
    warm, ended = Progress(LABELS), WarmStartEnded(reason="steps", ready=0, skills=1)
    step = msgspec.structs.replace(stepped(1, (0, "imitation")), stage="warm_start")
    for message in (
        evaluated(0, a=0),
        msgspec.structs.replace(step, warm_start_ended=ended),
        evaluated(1, a=0),
    ):
        warm.fold(message)
    assert warm.lesson().startswith("No scored version solved any held-out task: imitate for more")
    assert "references to imitate" not in warm.lesson()


def test_successes_of_discarded_groups_count():
    progress = Progress({})
    progress.fold(stepped(1, (0, "nothing")))
    assert "no rollout succeeded" in progress.lesson()
    progress.fold(
        GroupDiscarded(
            group_id="g",
            group=0,
            task_id="t",
            reason="zero_variance",
            successes=8,
            rollouts=8,
            groups_consumed=1,
        )
    )
    assert "in no group did they differ" in progress.lesson()


def test_the_metrics_file_has_one_line_per_step_and_per_score_and_no_other(tmp_path: Path):
    progress, metrics = Progress(LABELS), MetricsFile(tmp_path / "metrics.jsonl")
    step = StepReport(
        step=1, groups=(), weights_digest="", groups_consumed=8, metrics={"actor/lr": 0.1}
    )
    for message in (step, evaluated(1, a=2), RunFinished(steps=1)):
        progress.fold(message)
        metrics.write(message, progress)
    metrics.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    std_error = progress.evaluations[1]["all"].std_error
    assert lines == [
        {"step": 1, "actor/lr": 0.1},
        {
            "step": 1,
            "timing_s/testing": 1.5,
            "val/success/all": 1.0,
            "val/success/one turn": 1.0,
            "val/success_std_error/all": std_error,
            "val/success_std_error/one turn": std_error,
        },
    ]


def test_the_metrics_file_counts_given_tasks_that_are_unearned(tmp_path: Path):
    progress, metrics = Progress(LABELS, unearned=3), MetricsFile(tmp_path / "metrics.jsonl")
    step = StepReport(step=1, groups=(), weights_digest="", groups_consumed=8, metrics={})
    progress.fold(step)
    metrics.write(step, progress)
    metrics.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["tasks/unearned"] == 3


def test_the_instance_gap_is_over_the_tasks_whose_instance_was_scored(tmp_path: Path):
    progress, metrics = Progress(LABELS), MetricsFile(tmp_path / "metrics.jsonl")
    fresh = {"a~1": 2, "b~1": 0, "c~1": 1, "x~1": 2}
    given = evaluated(1, a=2, b=2, c=2, d=0)
    for message in (
        msgspec.structs.replace(given, instances=evaluated(1, **fresh).scores),
        msgspec.structs.replace(given, version=2, instances=evaluated(2, **{"a~1": 2}).scores),
        msgspec.structs.replace(
            given,
            version=3,
            trained=evaluated(3, s=2, t=2, u=2).scores,
            instances=evaluated(3, **{"a~1": 2, "b~1": 2, "s~1": 0, "t~1": 0}).scores,
        ),
    ):
        progress.fold(message)
        metrics.write(message, progress)
    metrics.close()
    both, few, trained = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    assert both["val/instance_gap/held_out/mean"] == pytest.approx(2 / 3)
    assert both["val/instance_gap/held_out/std_error"] == pytest.approx(1 / 3)
    assert not any("instance_gap" in name for name in few)
    assert not any("gap/trained" in name for name in both)
    assert trained["val/instance_gap/held_out/mean"] == 0.0
    assert trained["val/instance_gap/trained/mean"] == 1.0
    assert trained["val/instance_gap/trained/std_error"] == 0.0
    assert (trained["val/memorized/mean"], trained["val/memorized/std_error"]) == (1.0, 0.0)
    assert not any("memorized" in name for name in (*both, *few))


def _followed(path: Path, messages: Sequence[Message], lines: int = 0) -> bytes:
    progress, metrics = Progress(LABELS), MetricsFile(path, lines)
    for message in messages:
        progress.fold(message)
        if progress.lines > lines:
            metrics.write(message, progress)
    metrics.close()
    assert path.read_bytes().count(b"\n") == progress.lines
    return path.read_bytes()


@given(kept=st.integers(0, 20), beyond=st.sampled_from(("", "{}\n{", "x" * 9000)))
def test_a_metrics_file_that_is_continued_equals_one_that_is_written_anew(kept: int, beyond: str):
    canaries = CanaryScores(version=7, scores=(), errors=0)
    messages = [evaluated(0, a=1), canaries, *(stepped(n, (1, "nothing")) for n in range(20))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        whole = _followed(path, messages)
        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:kept]) + beyond.encode())
        assert kept_bytes(path, kept) == len(b"".join(lines[:kept]))
        assert _followed(path, messages, kept) == whole
        path.write_bytes(b"".join(lines[:kept])[:-1])
        assert kept_bytes(path, kept) == (0 if kept == 0 else None)


def test_the_run_and_its_totals_count_the_same_candidates_as_parked():
    parked, refused = Parked(probe_rollouts=4), Refused(gate="unsolved", found="?")
    progress, totals = Progress({}), EvolutionTotals()
    for message in (
        *(verdict(each, "s", parked) for each in ("c0", "c1", "c2", "c1", "c1")),
        verdict("c0", "s", refused),
        verdict("c3", "s", refused),
        admission("c2", "s", "m2")[1],
    ):
        progress.fold(message)
        totals.fold(message)
    (synthesizer,) = totals.synthesizers()
    assert progress.count("validator/parked") == synthesizer.parked == len(totals.parked) == 1
    assert progress.count("validator/reject/unsolved") == 2
