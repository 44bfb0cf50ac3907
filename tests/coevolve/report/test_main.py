import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve.journal.journal import Journal
from coevolve.report.__main__ import main
from coevolve.run import directory as run_directory
from coevolve.run.directory import RunDirectory
from protocols.config import RunConfig
from tests import evolving

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path, quickstart: RunConfig) -> RunDirectory:
    """The folder of a run that is not running."""
    config = msgspec.structs.replace(
        quickstart, arm="uniform", environment={"use": "filesystem", "held_out": 2}
    )
    directory = run_directory.create(tmp_path / "trial", config)
    journal = Journal.open(directory.store)
    evolving.write(journal, evolving.story())
    journal.close()
    return directory


def test_the_report_of_a_stopped_run_is_written_to_its_folder(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
):
    assert main(["trial", "--runs", str(run.path.parent)]) == 0
    assert Path(capsys.readouterr().out.strip()) == run.path / "report.html"
    assert "2 of 4 training groups" in (run.path / "report.html").read_text()


def test_the_default_is_the_newest_run_and_out_names_another_file(
    run: RunDirectory, tmp_path: Path
):
    out = tmp_path / "other.html"
    assert main(["--runs", str(run.path.parent), "--out", str(out)]) == 0
    assert out.is_file()
    assert not (run.path / "report.html").exists()


def test_a_run_is_reported_while_its_journal_is_being_written(run: RunDirectory):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run.store)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        assert main([str(run.path)]) == 0
    finally:
        writer.communicate(b"\n", timeout=30)
    assert "no progress for 60 s" in (run.path / "report.html").read_text()


def test_a_name_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["nobody", "--runs", str(tmp_path)]) == 1
    assert "nobody: is neither a run's folder nor the name of one" in capsys.readouterr().err


def test_the_report_starts_without_anything_heavy():
    code = "import sys, coevolve.report.__main__; print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert not {"ray", "torch", "transformers", "actors"} & set(finished.stdout.split())


WRITER = """
import sys
from pathlib import Path
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from protocols.control import Stalled
from protocols.journal import Append, Receipt

journal = Journal.open(Path(sys.argv[1]))
stalled = encode(Stalled(quiet_s=60.0, waiting=("learner waits for groups",)))
journal.append(Append(records=(stalled,), receipt=Receipt(producer="p", counter=1))).result(10)
print("open", flush=True)
sys.stdin.readline()
journal.close()
"""
