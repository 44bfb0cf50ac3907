"""The refusals of the two commands before anything starts: one message, exit code 1, no change.

The refusals of settings and journals are tested with their readers. These are the faults of a
command line, a folder or a process.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.control import RunStarted
from protocols.journal import Append, Receipt
from tests.commands import ROOT, Answer, answered, called

RUN_FILE = str(ROOT / "configs" / "quickstart.yaml")


def refusal(*words: str) -> str:
    """Return the one message of a command that has to be refused."""
    return message(answered(*words))


def message(answer: Answer) -> str:
    assert answer.returncode == 1, answer
    assert answer.stdout == ""
    assert answer.stderr.startswith("coevolve: ")
    assert "Traceback" not in answer.stderr
    return answer.stderr


def contents(folder: Path) -> dict[Path, bytes]:
    """Return every file below a folder, except lock files."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("lock.mdb", "writer.lock")
    }


@pytest.fixture
def quickstart() -> RunConfig:
    """The quickstart as its file states it, because these tests pass that file to the commands."""
    return load_config(Path(RUN_FILE), [])


@pytest.fixture
def run(tmp_path: Path, quickstart: RunConfig) -> RunDirectory:
    """A run that was started and stopped."""
    directory = starting.create(tmp_path / "quickstart", quickstart)
    began(directory, directory.identity().run_id)
    return directory


def began(directory: RunDirectory, run_id: str) -> None:
    journal = Journal.open(directory.store)
    record = encode(RunStarted(run_id=run_id, config="{}"))
    receipt = Receipt(producer="launch", counter=1)
    journal.append(Append(records=(record,), receipt=receipt)).result(10)
    journal.close()


def resume_refused(run: RunDirectory, *overrides: str) -> str:
    before = contents(run.path)
    said = refusal("launch", *resuming(run), *overrides)
    assert contents(run.path) == before
    return said


def resuming(run: RunDirectory) -> tuple[str, ...]:
    return (RUN_FILE, "--resume", "--runs", str(run.path.parent))


def test_all_faults_of_a_run_file_come_in_one_message(tmp_path: Path):
    said = refusal("launch", RUN_FILE, "rollout.group_size=1", "simulator.workers=0")
    assert "2 problems" in said
    said = refusal("launch", "learner.steps=3", RUN_FILE, "--runs", str(tmp_path))
    assert "the run file stands before its overrides" in said


def test_a_missing_model_creates_no_run(tmp_path: Path):
    said = refusal("launch", RUN_FILE, "policy.model=/none", "--runs", str(tmp_path / "runs"))
    assert "needs 'tiny', a folder in Hugging Face layout, or the name of a model" in said
    assert "found '/none'" in said
    assert not (tmp_path / "runs").exists()


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['bfcl_eval'] = None\n")
    command = ("launch", RUN_FILE, "--runs", str(tmp_path / "runs"))
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "cache")
    said = message(called(*command, PYTHONPATH=str(tmp_path), COEVOLVE_CACHE=nowhere))
    assert "environment filesystem needs bfcl-eval 2026.3.23, which cannot be installed" in said
    assert "`coevolve setup filesystem`" in said
    assert not (tmp_path / "runs").exists()


def test_an_unreachable_cluster_address_creates_no_run(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        said = refusal("launch", RUN_FILE, f"cluster.address={address}", "--runs", str(tmp_path))
    assert f"nothing listens at '{address}'; start one with `ray start --head`" in said
    assert not any(tmp_path.iterdir())


def test_a_folder_of_runs_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    said = refusal("launch", RUN_FILE, "--runs", str(tmp_path / "file"))
    assert "cannot be created: Not a directory; name a folder" in said
    assert "with --runs" in said


def test_a_disk_that_does_not_hold_a_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=300_000))
    said = refusal("launch", RUN_FILE, "--runs", str(tmp_path / "runs"))
    assert "MB of free disk for a policy version and a checkpoint, found 0.3 MB; free" in said
    assert not (tmp_path / "runs").exists()


def test_an_existing_run_is_not_changed(run: RunDirectory):
    before = contents(run.path)
    missing = "rollout.max_call_tokens=1"  # what takes long to refuse comes later
    said = refusal("launch", RUN_FILE, missing, "--runs", str(run.path.parent))
    assert f"exists already; continue that run with `coevolve resume {run.path}`" in said
    assert contents(run.path) == before


def test_resuming_with_other_settings_names_each(run: RunDirectory):
    assert "learner.learning_rate: was 0.001, is 0.5" in resume_refused(
        run, "learner.learning_rate=0.5", "learner.steps=3"
    )


def test_the_journal_of_another_run_is_refused(run: RunDirectory):
    shutil.rmtree(run.store)
    began(run, "somebody")
    said = resume_refused(run)
    assert "the journal belongs to run somebody, the directory to run " in said
    assert "put the right journal back" in said


def test_a_run_that_lost_its_journal_does_not_start_over(run: RunDirectory):
    run.metrics.write_text("")
    shutil.rmtree(run.store)
    assert "the journal of a run that went on is missing; put it back" in resume_refused(run)


def test_a_journal_with_its_end_missing_is_refused_before_anything_starts(run: RunDirectory):
    file = run.store / DATA_FILE
    os.truncate(file, file.stat().st_size - 8192)
    assert "so the file is truncated" in resume_refused(run)


def test_a_second_launcher_is_refused_and_changes_nothing(run: RunDirectory):
    journal = Journal.open(run.store)
    before = contents(run.path)
    try:
        said = message(called("launch", *resuming(run), "learner.steps=3"))
        assert contents(run.path) == before
    finally:
        journal.close()
    assert f"process {os.getpid()} is writing it; stop that run, attach to it" in said


@pytest.mark.parametrize("file", ["run.json", "config.yaml"])
def test_a_broken_file_of_a_run_is_named(run: RunDirectory, file: str):
    (run.path / file).write_bytes(b"\xff[")
    assert f"{run.path / file}: cannot be read: " in resume_refused(run)
    said = refusal("attach", "--runs", str(run.path.parent), "quickstart", "status")
    assert f"{run.path / file}: cannot be read: " in said


def test_attaching_to_a_folder_without_a_run_is_refused(tmp_path: Path):
    assert "holds no run; start one" in refusal("attach", "--runs", str(tmp_path), "status")
    said = refusal("attach", "nothing", "--runs", str(tmp_path), "status")
    assert "nothing: is neither a run's folder nor the name of one under" in said


def test_attaching_to_a_stopped_run_says_how_to_resume(run: RunDirectory):
    for command in ("stop", "checkpoint"):
        said = refusal("attach", str(run.path), command)
        assert "quickstart: not running; continue it with" in said


def test_an_unknown_topic_is_refused_and_the_known_ones_are_listed(run: RunDirectory):
    said = refusal("attach", str(run.path), "tail", "stepreport")
    assert (
        "there is no topic 'stepreport'; did you mean step_report?; topics: run_started, " in said
    )


def test_an_invalid_count_of_records_is_refused(run: RunDirectory):
    answers = [
        answered("attach", str(run.path), "tail", "run_started", "-n", count)
        for count in ("-1", "0")
    ]
    assert [answer.returncode for answer in answers] == [2, 0]
    assert answers[1].stdout == ""


def test_a_dry_run_prints_a_run_file_and_writes_nothing(tmp_path: Path, quickstart: RunConfig):
    answer = answered("launch", "--dry-run", RUN_FILE, "seed=4", "--runs", str(tmp_path / "runs"))
    assert answer.returncode == 0, answer.stderr
    expected = msgspec.structs.replace(quickstart, seed=4)
    assert msgspec.yaml.decode(answer.stdout, type=RunConfig) == expected
    assert not (tmp_path / "runs").exists()


@pytest.mark.ray
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive), signal.SIGKILL],
)
def test_a_start_that_is_cut_short_does_not_block_the_next(
    tmp_path: Path, quickstart: RunConfig, number: signal.Signals
):
    process = subprocess.Popen(
        [sys.executable, "-m", "coevolve.launch", RUN_FILE, "--runs", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "quickstart" / "run.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number is not signal.SIGKILL:
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == "coevolve: interrupted before the run began"
    assert "Traceback" not in said
    starting.create(tmp_path / "quickstart", quickstart)
