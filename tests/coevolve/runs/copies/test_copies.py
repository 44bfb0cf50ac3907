import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as
from coevolve.journal.reader import JournalReader
from coevolve.models.atomic_folder import files_in
from coevolve.runs.copies.copier import discard_staged
from coevolve.runs.copies.copy_folder import CopyFolder, claim
from coevolve.runs.copies.restoring import restore
from protocols.control import CopyFailed, RunCopied, RunResumed
from protocols.errors import CopyError, JournalFullError, RunError
from protocols.journal import Message
from protocols.learning import StepReport
from tests.commands import ROOT, answered
from tests.copying import GrowingRun

LARGE = 1 << 28
"""Bytes of a checkpoint that takes long enough to be copied."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.fixture
async def run(tmp_path: Path, place: Path) -> AsyncIterator[GrowingRun]:
    run = await GrowingRun.begun(tmp_path / "runs/grown", f"file://{place}")
    yield run
    run.close()


def restored(place: Path, to: Path) -> tuple[RunDirectory, list[str]]:
    """Restore a run into the new folder ``to``; return it and what was said."""
    said: list[str] = []
    restore(f"file://{place}", to / "grown", said.append)
    return RunDirectory(to / "grown"), said


def steps(directory: RunDirectory) -> list[int]:
    with JournalReader(directory.store).snapshot() as state:
        return [decode_as(each, StepReport).step for each in state.scan("step_report")]


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in files_in(folder)}


def blob(place: Path, name: str, number: int) -> Path:
    """Return the file of a copy at the place."""
    copies = {each.number: each for each in CopyFolder(str(place), "grown").manifests()}
    (digest,) = (each.digest for each in copies[number].files if each.name == name)
    return place / "grown/files" / digest


async def test_a_restored_run_has_everything_up_to_its_copy(
    run: GrowingRun, place: Path, tmp_path: Path
):
    await run.take_step(1)
    await run.take_step(2)
    copied = await run.copied()
    assert isinstance(copied, RunCopied)
    assert (copied.number, copied.step, copied.records) == (1, 2, 7)
    await run.take_step(3)
    directory, said = restored(place, tmp_path / "other")
    assert steps(directory) == [1, 2]
    assert names(directory.path) >= {
        "config.yaml",
        "run.json",
        "checkpoints/step_1/weights",
        "checkpoints/step_2/weights",
        "versions/v_2/weights",
    }
    assert "versions/v_1/weights" not in names(directory.path)  # no rollout needs it any more
    assert directory.identity().run_id == run.directory.identity().run_id
    assert (directory.path / "checkpoints/step_2/weights").read_bytes()[:6] == b"step 2"
    assert len(said) == 1
    assert f"restored from copy 1 of file://{place}/grown, made 20" in said[0]
    assert "with 2 steps and 7 records; all that the run did later is lost" in said[0]
    assert said[0].endswith("it continues with step 3")
    assert not (run.directory.path / ".copying").exists()
    assert {each.name for each in directory.path.parent.iterdir()} == {"grown"}


async def test_a_file_is_sent_once_and_old_copies_are_removed(run: GrowingRun, place: Path):
    sent: list[int] = []
    for step in (1, 2, 3):
        await run.take_step(step, replaces=(step - 1,), size_bytes=10**7)
        copied = await run.copied()
        assert isinstance(copied, RunCopied)
        sent.append(copied.sent_bytes)
    again = await run.copied()
    assert isinstance(again, RunCopied)
    assert min(sent) > 10**7 > again.sent_bytes > 0
    copies = CopyFolder(str(place), "grown").manifests()
    assert [each.number for each in copies] == [4, 3]
    listed = {f"files/{entry.digest}" for each in copies for entry in each.files}
    manifests = {"copies/000003.json", "copies/000004.json"}
    assert names(place / "grown") == manifests | listed


async def test_a_copy_of_a_killed_process_is_absent_and_sent_again(
    run: GrowingRun, place: Path, tmp_path: Path
):
    await run.take_step(1)
    await run.copied()
    await run.take_step(2, size_bytes=LARGE)
    run.close()
    large = killed_amid_copy(run.directory.path, place)
    assert large.stat().st_size < LARGE
    assert (run.directory.path / ".copying").exists()
    discard_staged(run.directory.path)
    assert not (run.directory.path / ".copying").exists()
    directory, said = restored(place, tmp_path / "first")
    assert steps(directory) == [1]
    assert "copy 1 of" in said[0]

    again = GrowingRun(run.directory, f"file://{place}")
    copied = await again.copied()
    again.close()
    assert isinstance(copied, RunCopied)
    assert copied.sent_bytes > LARGE
    directory, _ = restored(place, tmp_path / "second")
    assert steps(directory) == [1, 2]
    assert (directory.path / "checkpoints/step_2/weights").stat().st_size == LARGE


def killed_amid_copy(path: Path, place: Path) -> Path:
    """Copy a run in another process, kill it amid the first new file, and return this file."""
    files = place / "grown/files"
    before = set(files.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.copying", str(path), f"file://{place}"], cwd=ROOT
    )
    with contextlib.closing(_Ending(process)):
        deadline = time.monotonic() + 60
        while not (new := set(files.iterdir()) - before):
            assert time.monotonic() < deadline
    return new.pop()


class _Ending:
    """Kills a process when it is closed."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


async def test_a_damaged_copy_is_named_and_the_one_before_is_used(
    run: GrowingRun, place: Path, tmp_path: Path
):
    for step in (1, 2):
        await run.take_step(step)
        await run.copied()
    blob(place, "checkpoints/step_2/weights", 2).write_bytes(b"other")
    directory, said = restored(place, tmp_path / "older")
    assert "checkpoints/step_2/weights of copy 2 was changed" in said[0]
    assert "restored from copy 1" in said[1]
    assert steps(directory) == [1]
    blob(place, "store/data.mdb", 1).unlink()
    with pytest.raises(
        CopyError, match=r"holds no intact copy: .*copy 2 was changed.*data\.mdb of"
    ):
        restored(place, tmp_path / "none")
    assert list((tmp_path / "none").iterdir()) == []


async def test_a_half_written_manifest_is_no_copy(run: GrowingRun, place: Path, tmp_path: Path):
    await run.take_step(1)
    await run.copied()
    manifests = place / "grown/copies"
    whole = (manifests / "000001.json").read_bytes()
    (manifests / "000002.json").write_bytes(whole[: len(whole) // 2])
    directory, said = restored(place, tmp_path / "other")
    assert steps(directory) == [1]
    assert "copy 1 of" in said[0]


@contextlib.contextmanager
def blocked(place: Path) -> Generator[None]:
    """Let a file be where the place's folder would be."""
    place.write_text("a file")
    yield
    place.unlink()


@pytest.mark.parametrize("name", ["../../stray", "/tmp/stray", "a/../../stray", "", "\0"])
async def test_a_manifest_cannot_write_outside_the_run(
    run: GrowingRun, place: Path, tmp_path: Path, name: str
):
    await run.take_step(1)
    await run.copied()
    (newest,) = (place / "grown/copies").iterdir()
    hostile = json.loads(newest.read_bytes())
    hostile["number"] = 999
    hostile["files"][0]["name"] = name
    newest.with_name("000999.json").write_text(json.dumps(hostile))
    _, said = restored(place, tmp_path / "other")
    assert "copy 1 of" in said[0]
    assert not any("stray" in each for each in names(tmp_path))


async def test_a_place_that_fails_is_recorded_and_nothing_else_happens(
    run: GrowingRun, place: Path
):
    await run.take_step(1)
    with blocked(place):
        failed = await run.copied()
    assert isinstance(failed, CopyFailed)
    assert f"file://{place}/grown: " in failed.reason
    assert isinstance(await run.copied(), RunCopied)


async def test_a_copy_that_cannot_be_recorded_is_there_nevertheless(
    run: GrowingRun, place: Path, monkeypatch: pytest.MonkeyPatch
):
    await run.take_step(1)

    async def full(message: Message) -> None:
        raise JournalFullError(f"no room for {message}")

    monkeypatch.setattr(run.copier, "_note", full)
    await run.copier.copy()
    assert [each.number for each in CopyFolder(str(place), "grown").manifests()] == [1]


async def test_a_copy_without_the_newest_checkpoint_is_not_made(run: GrowingRun, place: Path):
    await run.take_step(1)
    (run.directory.path / "checkpoints/step_1/weights").unlink()
    (run.directory.path / "checkpoints/step_1").rmdir()
    failed = await run.copied()
    assert isinstance(failed, CopyFailed)
    assert "checkpoints/step_1: is missing" in failed.reason
    assert names(place) == set()


async def test_a_run_is_copied_after_each_checkpoint_that_is_kept(run: GrowingRun, place: Path):
    copying = asyncio.create_task(run.copier.run())
    try:
        await run.take_step(1, kept=False)
        await run.take_step(2)
        await run.until_noted(1)
        await run.take_step(3, kept=False)
        await run.take_step(4, replaces=(3,))
        await run.until_noted(2)
    finally:
        copying.cancel()
    assert [each.step for each in run.noted if isinstance(each, RunCopied)] == [2, 4]


def test_a_place_that_cannot_be_written_is_refused_at_the_start():
    with pytest.raises(
        CopyError, match=r"^store\.copies: /proc/coevolve/grown: cannot be written: FileNotFound"
    ):
        claim("/proc/coevolve", "grown", "anew")


def test_a_place_that_can_be_written_is_left_empty(place: Path):
    claim(str(place), "grown", "anew")
    assert not [each for each in place.rglob("*") if each.is_file()]


async def test_copies_of_another_run_and_a_run_that_is_there_are_left_alone(
    run: GrowingRun, place: Path
):
    await run.take_step(1)
    await run.copied()
    claim(str(place), "grown", run.directory.identity().run_id)
    with pytest.raises(CopyError, match=r"has copies of another run, [0-9a-f]{12}"):
        claim(str(place), "grown", "anew")
    with pytest.raises(RunError, match="exists already, and a copy is restored into a new folder"):
        restored(place, run.directory.path.parent)
    with pytest.raises(CopyError, match="holds no complete copy of a run"):
        restore(str(place / "nowhere"), place / "other", print)


async def test_a_process_adds_no_copy_after_the_run_was_resumed_elsewhere(
    run: GrowingRun, place: Path, tmp_path: Path
):
    await run.take_step(1)
    await run.copied()
    directory, _ = restored(place, tmp_path / "other")
    resumed = GrowingRun(directory, f"file://{place}")
    await resumed.add(RunResumed(run_id=directory.identity().run_id, config=""))
    assert isinstance(await resumed.copied(), RunCopied)
    refused = await run.copied()
    assert isinstance(refused, CopyFailed)
    assert "copy 2 was made by a process that resumed this run later" in refused.reason
    assert isinstance(await resumed.copied(), RunCopied)
    resumed.close()


@pytest.mark.parametrize(
    ("copies", "sentence"),
    [
        ("s3://bucket/runs", "s3://bucket/runs/quickstart needs a package that is not installed: "),
        ("nowhere://x", "needs a path or a URL that fsspec knows, such as s3://BUCKET/FOLDER, "),
        ("README.md", "README.md/quickstart: cannot be listed: NotADirectoryError"),
    ],
)
def test_a_place_that_cannot_be_reached_is_missing_before_the_start(copies: str, sentence: str):
    answer = answered("launch", "quickstart", f"store.copies={copies}", "--dry-run")
    assert answer.returncode == 0
    missing = [line for line in answer.stdout.splitlines() if line.startswith("# missing: ")]
    assert len(missing) == 1
    assert missing[0].startswith("# missing: store.copies: ")
    assert sentence in missing[0]
