import os
import shutil
from pathlib import Path

import msgspec
import pytest

from coevolve.cli.resume import command as resume
from coevolve.history import finding
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.control import RunFinished, RunStarted
from protocols.errors import RunError
from protocols.journal import Append, Message, Receipt
from protocols.learning import StepReport


def begin(directory: RunDirectory, *further: Message) -> None:
    """Write the record with which a run begins, and further ones."""
    started = RunStarted(run_id=directory.identity().run_id, config="{}")
    journal = Journal.open(directory.store)
    receipt = Receipt(producer="launch", counter=1)
    records = tuple(encode(each) for each in (started, *further))
    journal.append(Append(records=records, receipt=receipt)).result(10)
    journal.close()


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    learner = msgspec.structs.replace(config.learner, steps=steps)
    return msgspec.structs.replace(config, learner=learner)


def refused(path: Path, config: RunConfig) -> None:
    files = [file for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb"]
    before = {file: file.read_bytes() for file in files}
    with pytest.raises(
        RunError, match=r"exists already; continue that run with `coevolve resume /"
    ):
        starting.create(path, config)
    assert {file: file.read_bytes() for file in before} == before


def test_a_run_that_began_is_not_overwritten(tmp_path: Path, quickstart: RunConfig):
    begin(starting.create(tmp_path / "a", quickstart))
    refused(tmp_path / "a", quickstart)


def test_a_folder_that_is_no_run_is_not_overwritten(tmp_path: Path, quickstart: RunConfig):
    (tmp_path / "a").mkdir()
    refused(tmp_path / "a", quickstart)
    starting.create(tmp_path / "b", quickstart)
    (tmp_path / "b" / "thesis.tex").write_text("my own")
    refused(tmp_path / "b", quickstart)


def test_a_run_that_is_being_launched_is_not_overwritten(tmp_path: Path, quickstart: RunConfig):
    directory = starting.create(tmp_path / "a", quickstart)
    running = f"process {os.getpid()} is running this run; .*attach .*/a resume` ends a pause"
    with starting.launch_lock(directory):
        for refuse in (starting.create, starting.reopen):
            with pytest.raises(RunError, match=running):
                refuse(tmp_path / "a", quickstart)
        with pytest.raises(RunError, match=running), starting.launch_lock(directory):
            pass


def test_a_run_whose_launcher_died_before_it_began_makes_room(
    tmp_path: Path, quickstart: RunConfig
):
    first = starting.create(tmp_path / "a", quickstart)
    identity = first.identity()
    (first.path / "model").mkdir()
    Journal.open(first.store).close()
    second = starting.create(tmp_path / "a", quickstart)
    assert second.identity().run_id != identity.run_id
    assert not (second.path / "model").exists()


def test_the_config_written_is_the_config_read(tmp_path: Path, quickstart: RunConfig):
    assert starting.create(tmp_path / "a", quickstart).config() == quickstart


def test_resuming_keeps_the_identity_and_takes_harmless_changes(
    tmp_path: Path, quickstart: RunConfig
):
    identity = starting.create(tmp_path / "a", quickstart).identity()
    learner = msgspec.structs.replace(quickstart.learner, steps=200, devices=2)
    longer = msgspec.structs.replace(quickstart, learner=learner)
    reopened = starting.reopen(tmp_path / "a", longer)
    assert reopened.identity() == identity
    assert reopened.config() == quickstart
    reopened.record_launch(longer, identity)
    assert reopened.config().learner == learner


def test_a_finished_run_is_continued_only_with_more_steps(tmp_path: Path, quickstart: RunConfig):
    steps = quickstart.learner.steps
    report = StepReport(step=steps, groups=(), weights_digest="", groups_consumed=0, metrics={})
    unscored = starting.create(tmp_path / "unscored", quickstart)
    begin(unscored, report)
    assert starting.reopen(unscored.path, quickstart) == unscored
    finished = starting.create(tmp_path / "finished", quickstart)
    begin(finished, report, RunFinished(steps=steps))
    with pytest.raises(RunError, match=f"has taken all {steps} steps; learner.steps=MORE"):
        starting.reopen(finished.path, quickstart)
    assert starting.reopen(finished.path, with_steps(quickstart, 2 * steps)) == finished
    with pytest.raises(RunError, match=f"taken {steps} steps, but learner.steps is {steps - 1}"):
        starting.reopen(finished.path, with_steps(quickstart, steps - 1))


def test_resuming_as_another_experiment_is_refused_by_name_and_value(
    tmp_path: Path, quickstart: RunConfig
):
    starting.create(tmp_path / "a", quickstart)
    other = msgspec.structs.replace(quickstart, seed=7)
    with pytest.raises(RunError, match="seed: was 0, is 7"):
        starting.reopen(tmp_path / "a", other)
    assert RunDirectory(tmp_path / "a").config().seed == 0


def test_a_copied_folder_does_not_continue_the_run_that_it_was_copied_from(
    tmp_path: Path, quickstart: RunConfig
):
    begin(starting.create(tmp_path / quickstart.name, quickstart))
    shutil.copytree(tmp_path / quickstart.name, tmp_path / "copy")
    refusal = rf"run '{quickstart.name}' has to be called '{quickstart.name}', found 'copy'; rename"
    with pytest.raises(RunError, match=refusal):
        resume.main(["copy", "--runs", str(tmp_path)], standalone_mode=False)


def test_the_newest_run_is_the_newest_with_a_journal(tmp_path: Path, quickstart: RunConfig):
    begun = starting.create(tmp_path / "begun", quickstart)
    failed = starting.create(tmp_path / "failed", quickstart)
    os.utime(begun.path / "run.json", (1, 1))
    assert finding.newest(tmp_path) == failed
    begin(begun)
    assert finding.newest(tmp_path) == begun


def test_resuming_nothing_is_refused(tmp_path: Path, quickstart: RunConfig):
    with pytest.raises(RunError, match="there is no run to resume; leave --resume "):
        starting.reopen(tmp_path / "a", quickstart)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, quickstart: RunConfig):
    (tmp_path / "a").mkdir()
    with pytest.raises(RunError, match=r"is no run directory, it has no run\.json"):
        starting.reopen(tmp_path / "a", quickstart)


def test_the_newest_run_is_found(tmp_path: Path, quickstart: RunConfig):
    with pytest.raises(RunError, match="holds no run"):
        finding.newest(tmp_path)
    starting.create(tmp_path / "a", quickstart)
    starting.create(tmp_path / "b", quickstart)
    assert finding.newest(tmp_path).path.name == "b"


def test_a_run_is_found_by_its_name_its_folder_and_what_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quickstart: RunConfig
):
    monkeypatch.chdir(tmp_path)
    root = Path("runs")
    path = starting.create(root / "quickstart", quickstart).path.resolve()
    (path / "versions").mkdir()
    for run in (
        None,
        "quickstart",
        "quickstart/config.yaml",
        "runs/quickstart",
        "./runs/quickstart",
        "runs/quickstart/",
        "runs/quickstart/config.yaml",
        "runs/quickstart/versions",
        str(path),
    ):
        assert finding.find(run, root).path == path, run
    monkeypatch.chdir(path)
    assert finding.find(".", Path("nowhere")).path == path


def test_a_run_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, quickstart: RunConfig
):
    with pytest.raises(RunError, match="which holds no run; start one with"):
        finding.find("quickstart", tmp_path)
    for number in range(7):
        path = starting.create(tmp_path / f"trial-{number}", quickstart).path
        os.utime(path / "run.json", (number, number))
    with pytest.raises(RunError) as caught:
        finding.find("trail-3", tmp_path)
    assert str(caught.value) == (
        f"trail-3: is neither a run's folder nor the name of one under {tmp_path}; did you mean "
        "'trial-3'?; newest first, it holds trial-6, trial-5, trial-4, trial-3, trial-2, ..."
    )
    with pytest.raises(RunError, match="neither a run's folder"):
        finding.find(str(tmp_path), tmp_path)
