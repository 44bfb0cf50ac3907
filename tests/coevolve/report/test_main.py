import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from coevolve.history.directory import RunDirectory
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig
from tests import evolving
from tests.commands import answered

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path, quickstart: RunConfig) -> RunDirectory:
    """The folder of a run that is not running."""
    config = msgspec.structs.replace(
        quickstart, arm="uniform", environment={"use": "filesystem", "held_out": 2}
    )
    directory = starting.create(tmp_path / "trial", config)
    journal = Journal.open(directory.store)
    evolving.write(journal, evolving.story())
    journal.close()
    return directory


def test_the_report_of_a_dead_run_lies_in_its_folder(run: RunDirectory):
    answer = answered("report", "trial", "--runs", str(run.path.parent))
    assert Path(answer.stdout.strip()) == run.path / "report.html"
    assert "2 of 4 training groups" in (run.path / "report.html").read_text()


def test_the_report_names_the_model_that_a_tiny_random_one_stands_for(run: RunDirectory):
    config = run.written_config()
    policy = msgspec.structs.replace(config.policy, model="Qwen/Qwen3-4B", tiny_random=True)
    run.write_config(msgspec.structs.replace(config, policy=policy))
    assert answered("report", str(run.path)).returncode == 0
    text = run.report.read_text()
    assert text.count("a tiny random model of the kind of Qwen/Qwen3-4B") == 2
    assert str(run.path) not in text


def test_the_default_is_the_newest_run_and_out_names_another_file(
    run: RunDirectory, tmp_path: Path
):
    out = tmp_path / "other.html"
    assert answered("report", "--runs", str(run.path.parent), "--out", str(out)).returncode == 0
    assert out.is_file()
    assert not (run.path / "report.html").exists()


def test_the_metrics_of_other_runs_are_drawn_beside_those_of_the_first(run: RunDirectory):
    other = run.path.with_name("other")
    shutil.copytree(run.path, other)
    for path, value in ((run.path, 1), (other, 2)):
        (path / "metrics.jsonl").write_text(f'{{"step": 1, "actor/entropy": {value}}}\n')
    answer = answered("report", "trial", "other", "--runs", str(run.path.parent))
    assert Path(answer.stdout.strip()) == run.report
    assert '"runs":["trial","other"]' in run.report.read_text()
    assert not (other / "report.html").exists()


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
        assert answered("report", str(run.path)).returncode == 0
    finally:
        writer.communicate(b"\n", timeout=30)
    assert "no progress for 60 s" in (run.path / "report.html").read_text()


def test_what_is_no_run_is_refused_by_name(tmp_path: Path):
    answer = answered("report", "nobody", "--runs", str(tmp_path))
    assert answer.returncode == 1
    assert "nobody: is neither a run's folder nor the name of one" in answer.stderr


def test_the_report_starts_without_anything_heavy():
    code = "import sys, coevolve.cli.report, coevolve.report.writing; print(*sys.modules)"
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
