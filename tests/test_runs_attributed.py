"""A real run, and the measured effect of its sources of gradient on its result."""

import json
from pathlib import Path

import msgspec
import pytest

from coevolve.history import attribution
from coevolve.history.attribution import UNKNOWN, Attribution
from coevolve.history.directory import RunDirectory
from tests.commands import Answer, answered
from tests.launched import SMALL, LaunchedRun, launched

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

STEPS = 3


def ablated(run: LaunchedRun, *options: str) -> Answer:
    return answered("replay", str(run.directory), *options)


def kept(run: LaunchedRun) -> Attribution:
    found = attribution.read(run.directory)
    assert found is not None
    return found


def scored(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return {each["step"]: each["val/success/all"] for each in lines if "val/success/all" in each}


@pytest.mark.exhaustive
def test_a_run_is_repeated_without_a_source_and_summary_and_report_show_the_effect(
    tmp_path: Path,
):
    small = (*SMALL, "arm=static", f"learner.steps={STEPS}")
    with launched(tmp_path, "whole", *small) as run:
        assert run.wait() == 0, run.said()
    assert UNKNOWN[0].strip() in run.said()
    command = attribution.COMMAND.format(run=run.directory)
    assert command in run.said().replace("\n", "")

    answer = ablated(run, *command.split()[3:])
    assert answer.returncode == 0, answer.stderr
    (other,) = (each for each in tmp_path.glob("whole-without-objective-0-*") if each.is_dir())
    settings = RunDirectory(other).config().learner
    assert settings.only_imitates
    assert settings.imitation == RunDirectory(run.directory).config().learner.imitation
    own, without = scored(run.directory), scored(other)
    found = kept(run)
    assert (found.steps, found.start.mean, found.final.mean) == (STEPS, own[0], own[STEPS])
    (paired,) = found.without
    assert (paired.source, paired.method) == ("objective", "paired runs")
    assert paired.success.mean == without[STEPS]
    worth = f"{100 * (own[STEPS] - without[STEPS]):+.1f} points"
    page = (run.directory / "report.html").read_text(encoding="utf-8")
    assert "lost without objective, by paired runs" in page
    assert worth in page

    made = (other / "run.json").stat().st_mtime_ns
    again = ablated(run, "--ablate", "objective", "--anew")
    assert again.stdout == answer.stdout
    assert (other / "run.json").stat().st_mtime_ns == made

    recorded = ablated(run, "--ablate", "objective", "--ablate", "imitation")
    assert recorded.returncode == 0, recorded.stderr
    found = kept(run)
    assert found.final.mean == own[STEPS]
    assert found.without[0] == paired
    assert [(each.source, each.method) for each in found.without[1:]] == [
        ("objective", "recorded batches"),
        ("imitation", "recorded batches"),
    ]
    assert found.without[1].off_policy is None, "nothing looked at who wrote"
    assert found.off_policy is not None
    assert answered("report", str(run.directory)).returncode == 0
    assert worth in (run.directory / "report.html").read_text(encoding="utf-8")

    (run.directory / attribution.FILE).write_bytes(msgspec.json.encode({"method": "guess"}))
    assert answered("report", str(run.directory)).returncode == 0
    told = f"{run.directory / attribution.FILE}: cannot be read"
    assert told in (run.directory / "report.html").read_text(encoding="utf-8")
    broken = ablated(run, "--ablate", "imitation")
    assert broken.returncode == 1
    assert told in broken.stderr


@pytest.mark.parametrize(
    "options",
    [("--anew",), ("--ablate", "luck"), ("--ablate", "replay", "--from-checkpoint", "1")],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, options: tuple[str, ...]):
    assert answered("replay", str(tmp_path), *options).returncode == 2
