"""The end of a run on one screen, with the held-out scores last."""

import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.base.terminal import Terminal
from coevolve.base.visible import UNSAFE
from coevolve.history.costs import Costs
from coevolve.screen.ending import Ending, print_ending
from protocols.config import RunConfig
from protocols.control import PartFailed, RunResumed, RunStarted, StartMeasured
from protocols.evolution import ModelRests
from protocols.journal import Message
from protocols.learning import Evaluation, PolicyRegressed, TaskScore
from tests.evolving import called, discarded
from tests.exporting import scored
from tests.screens import progress_of, report, staged, whole_story

BEGUN = RunStarted(run_id="r", config="{}")
AGAIN = RunResumed(run_id="r", config="{}")
USED = StartMeasured(
    start_s=8.0,
    training_s=72.0,
    model_cpu_s=60.0,
    simulator_cpu_s=5.0,
    rest_cpu_s={"ray": 20.0, "store": 15.0},
)
LOST = PolicyRegressed(
    version=40,
    score=0.5,
    best_version=30,
    best_score=0.75,
    canaries=16,
    lost=4,
    gained=0,
    chance=0.01,
    action="return",
)


def ending(config: RunConfig, messages: Sequence[Message], **fields: object) -> Ending:
    costs = Costs()
    for message in messages:
        costs.fold(message)
    learner = msgspec.structs.replace(config.learner, steps=40)
    given: dict[str, object] = {
        "config": msgspec.structs.replace(config, learner=learner),
        "progress": progress_of(messages),
        "costs": costs,
        "run": Path("runs/quickstart"),
        "report": Path("runs/quickstart/report.html"),
        "stopped": False,
        "lost": None,
    }
    return Ending(**given | fields)  # pyright: ignore[reportArgumentType]


def scored_task(task_id: str, passed: int) -> TaskScore:
    return TaskScore(task_id=task_id, turns_passed=passed, turns_total=1)


def printed(found: Ending, width: int = 80) -> list[str]:
    terminal = Terminal(width=width, height=24, color_system=None, highlight=False)
    with terminal.capture() as shown:
        print_ending(terminal, found)
    return shown.get().splitlines()


def on_terminal(found: Ending, encoding: str = "utf-8") -> list[str]:
    """Return the rows of a terminal of 80 columns and 24 rows."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Terminal(
        file=file, width=80, height=24, color_system=None, highlight=False, force_terminal=True
    )
    with terminal.capture() as shown:
        print_ending(terminal, found)
    lines = shown.get().splitlines()
    return [line[at : at + 80] for line in lines for at in range(0, max(len(line), 1), 80)]


def of(name: str, lines: Sequence[str]) -> str:
    (line,) = [each for each in lines if each.startswith(name)]
    return " ".join(line.split())


def test_the_end_fits_one_screen_and_the_scores_come_last(quickstart: RunConfig):
    failed = PartFailed(part="learner", reason="it was killed")
    lines = printed(ending(quickstart, [BEGUN, *whole_story(), failed, discarded(1), USED]))
    assert len(lines) < 24
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("quickstart \u00b7 arm full \u00b7 seed 0")
    assert lines[0].endswith("40 of 40 steps in 1:12, after a start of 0:08")
    assert [" ".join(line.split()) for line in lines[-3:]] == [
        "",
        "held-out success, % step 0 step 40 std error tasks",
        "all 25.0 75.0 16.7 4",
    ]
    assert of("held-out success  ", lines) == (
        "held-out success 25.0 -> 75.0 ± 16.7 %, +50.0 points, version 0 to 40"
    )
    assert of("best version", lines).startswith("best version version 40, best of 2 by the same 4")
    assert of("signals found", lines) == "signals found 2 (1 forgetting, 1 rare); 1 open"
    assert of("tasks made", lines) == "tasks made parked 1, admitted 1 learnable"
    assert of("tasks refused", lines) == "tasks refused 1 duplicate"
    assert of("groups discarded", lines) == "groups discarded 1 stale"
    assert of("synthesizer", lines).startswith("synthesizer 2 calls, ")
    assert of("CPU", lines) == "CPU models 60 s, simulators 5 s, everything else 35 s (35.0 %)"
    assert of("restarts", lines) == "restarts of parts 1 learner"
    assert "report: runs/quickstart/report.html" in lines


def test_the_end_tells_the_warm_start_and_the_loop_apart(quickstart: RunConfig):
    lines = printed(ending(quickstart, staged(4, 9)), 200)
    assert of("warm start", lines) == "warm start 4 steps; 4 of 6 skills succeed in 5 % of attempts"
    assert of("held-out by stage", lines) == (
        "held-out by stage 0.0 \u00b1 12.5 % before (version 0), 50.0 \u00b1 17.9 % after the warm "
        "start (version 4), 75.0 \u00b1 16.7 % after the loop (version 9)"
    )
    warm = printed(ending(quickstart, staged(4, 4)), 200)
    assert of("held-out by stage", warm).endswith("after the warm start (version 4)")
    assert len(printed(ending(quickstart, staged(4, 9)))) < 24
    assert "by stage" not in " ".join(printed(ending(quickstart, whole_story())))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_end_of_a_rich_run_fits_24_rows_with_its_curve(quickstart: RunConfig, encoding: str):
    labels = {f"h{n}": (f"label {n}",) for n in range(4)}
    messages = [BEGUN, *whole_story(), *(scored(version, version % 3) for version in (50, 60, 70))]
    messages += [PartFailed(part=f"part-{n}", reason="it was killed") for n in range(40)]
    found = ending(quickstart, [*messages, discarded(1), USED], stopped=True)
    found.progress.labels = labels
    for name in range(30):
        found.progress.evaluations[70][f"label {name}"] = found.progress.evaluations[70]["all"]
    rows = on_terminal(found, encoding)
    assert len(rows) < 24
    drawn = of("its curve", rows)
    assert drawn.endswith("0.0 to 75.0 %")
    assert ("\u2588" in drawn) is (encoding == "utf-8")
    assert "the report has more" in rows
    assert any(row.startswith("report: ") for row in rows)
    assert any(row.startswith("all ") for row in rows)


def test_the_end_says_what_other_names_change(quickstart: RunConfig):
    both = msgspec.structs.replace(
        scored(1, 1),
        trained=(scored_task("s", 1), scored_task("t", 1)),
        instances=(scored_task("s~1", 0), scored_task("t~1", 1)),
    )
    lines = printed(ending(quickstart, [report(1), both]))
    assert of("instance gap", lines) == "instance gap +50.0 ± 50.0 points on those trained on"
    assert not any(line.startswith("memorized") for line in lines)
    assert not any(line.startswith("instance") for line in printed(ending(quickstart, [report(1)])))


def test_the_end_says_what_was_memorized_with_its_error(quickstart: RunConfig):
    fresh = {"h1": 1, "h2": 0, "t1": 0, "t2": 0, "t3": 0, "t4": 1}
    measured = Evaluation(
        version=1,
        scores=(scored_task("h1", 1), scored_task("h2", 1)),
        trained=tuple(scored_task(f"t{number}", 1) for number in range(1, 5)),
        instances=tuple(scored_task(f"{name}~1", passed) for name, passed in fresh.items()),
        errors=0,
        wall_s=1.0,
    )
    lines = printed(ending(quickstart, [report(1), measured]))
    # Gaps of 0.75 and 0.5, with errors of 0.5 / 2 and of the root of 0.5, by the root of 2.
    told = "memorized +25.0 \u00b1 55.9 points, the trained minus the held-out gap"
    assert of("memorized", lines) == told


def test_a_run_whose_held_out_tasks_all_failed_to_be_scored_ends_without_scores(
    quickstart: RunConfig,
):
    unscored = Evaluation(version=0, scores=(), errors=6, wall_s=1.0)
    lines = printed(ending(quickstart, [unscored], stopped=True))
    assert not any(line.startswith("held-out") for line in lines)


@pytest.mark.parametrize(
    ("messages", "version"),
    [
        ([*whole_story(), report(41)], 41),
        ([report(3)], 3),
        ([report(1), Evaluation(version=1, scores=(), errors=6, wall_s=1.0)], 1),
        ([report(2), scored(0, 0)], 2),
    ],
)
def test_the_end_begins_with_a_newest_version_without_a_score_and_how_to_score_it(
    messages: Sequence[Message], version: int, quickstart: RunConfig
):
    lines = printed(ending(quickstart, messages, stopped=True), 200)
    assert " ".join(lines[1].split()) == (
        f"not scored version {version}, the newest, has no held-out score; score it with: coevolve "
        "evaluate runs/quickstart"
    )


@pytest.mark.parametrize("messages", [whole_story(), [report(1), scored(1, 0)], [scored(0, 1)]])
def test_the_end_of_a_run_whose_newest_version_is_scored_names_none_that_is_not(
    messages: Sequence[Message], quickstart: RunConfig
):
    assert not any(line.startswith("not scored") for line in printed(ending(quickstart, messages)))


def test_a_run_that_made_no_task_says_so_and_why(quickstart: RunConfig):
    rests = ModelRests(synthesizer="glm", failures=3, reason="status 500: out of order")
    messages = [report(1), scored(0, 0), scored(1, 0), rests]
    lines = printed(ending(quickstart, messages))
    assert of("signals found", lines) == "signals found none, so no task was made"
    assert of("at the end", lines).startswith("at the end the synthesizer's model glm rests, and")
    assert not any(line.startswith("best version") for line in lines)
    static = msgspec.structs.replace(quickstart, arm="static")
    assert not any(line.startswith("signals") for line in printed(ending(static, messages)))


def test_a_stopped_run_says_how_to_continue(quickstart: RunConfig):
    lines = printed(ending(quickstart, [BEGUN, *whole_story(20)], stopped=True))
    assert "stopped; continue with: coevolve resume runs/quickstart" in lines
    assert lines[0].endswith(" 20 of 40 steps")
    assert not any(line.startswith("CPU") for line in lines)


def test_the_end_of_a_resumed_run_counts_all_its_starts(quickstart: RunConfig):
    earlier = msgspec.structs.replace(USED, training_s=30.0, model_cpu_s=20.0)
    first = [BEGUN, *whole_story(20), earlier, USED]  # of a start, the newest record counts
    lines = printed(ending(quickstart, [*first, AGAIN, report(21), earlier]))
    assert lines[0].endswith("21 of 40 steps in 1:42, after 2 starts of 0:16")
    assert of("CPU", lines) == "CPU models 80 s, simulators 10 s, everything else 70 s (43.8 %)"
    killed = printed(ending(quickstart, [*first, AGAIN, report(21), AGAIN, report(22), earlier]))
    assert killed[0].endswith("22 of 40 steps in 1:42, after 3 starts of 0:16")
    said = " ".join(" ".join(killed).split())
    assert "everything else 70 s (43.8 %); without 1 of 3 starts" in said


def test_a_run_without_a_report_says_how_to_write_it(quickstart: RunConfig):
    lines = printed(ending(quickstart, whole_story(), report=None))
    (said,) = [line for line in lines if line.startswith("no report ")]
    assert said.endswith("write it with: coevolve report runs/quickstart")


def test_a_run_that_never_scored_has_an_end_too(quickstart: RunConfig):
    lines = printed(ending(quickstart, []))
    assert lines[0].endswith(" 0 of 40 steps")


def test_a_run_that_learned_nothing_says_so_at_its_end(quickstart: RunConfig):
    nothing = [scored(0, 0), report(1), scored(1, 0)]
    lines = printed(ending(quickstart, nothing))
    said = " ".join(" ".join(lines).split())
    assert "No step learned from rewards: no rollout succeeded" in said


def test_what_was_lost_is_said_whole(quickstart: RunConfig):
    lines = printed(ending(quickstart, whole_story(), lost=LOST))
    said = " ".join(" ".join(lines).split())
    assert "version 40 passes 50 % of 16 canary tasks, version 30 passed 75 %" in said
    assert "evaluate use version 30 for `--version best`" in said


@pytest.mark.parametrize(("width", "columns"), [(80, 4), (120, 8), (40, 2)])
def test_of_many_versions_the_first_and_the_newest_that_fit_are_shown(
    quickstart: RunConfig, width: int, columns: int
):
    scores = [scored(version, version % 5) for version in range(0, 1000, 10)]
    lines = printed(ending(quickstart, [*whole_story(), *scores]), width)
    assert len(lines[-2]) <= width
    versions = [int(word) for word in lines[-2].split() if word.isdecimal()]
    assert len(versions) == columns
    assert versions == [0, *range(1000 - 10 * (columns - 1), 1000, 10)]


def test_no_name_acts_on_the_terminal(quickstart: RunConfig):
    hostile = "\x1b]0;title\x07\x1b[2J\u202e"
    config = msgspec.structs.replace(quickstart, name=hostile)
    failed = PartFailed(part=hostile, reason=hostile)
    messages = [*whole_story(), failed, called("s1", model=hostile)]
    lines = printed(ending(config, messages, report=Path(hostile)))
    assert not UNSAFE.search("".join(lines))
    assert lines[0].startswith(r"\u001b]0;title\u0007")
    assert any(line.startswith(r"report: \u001b]0;title") for line in lines)
