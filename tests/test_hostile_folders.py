"""Run folders made to harm: whatever a command does with them, nothing of them is executed.

Each kind of folder would write the file `Stranger.mark` from any code of its own that runs.
"""

import json
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from coevolve.base.import_guard import is_in_run
from coevolve.board.answers import Answers
from coevolve.board.overview import RunsFolder
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.learning.sharded.shards import INDEX_FILE
from coevolve.models.atomic_folder import folder_digest
from coevolve.models.model_folder import TINY_FOLDER
from coevolve.models.weight_files import version_digest
from protocols.config import RunConfig
from protocols.control import RunResumed
from protocols.errors import JournalError
from protocols.journal import Append, Receipt
from protocols.learning import Checkpoint, PolicyVersion
from tests.commands import answered
from tests.exporting import move_to_checkpoint, settings, write_run, write_versions

CONFIG = msgspec.structs.replace(settings(RunConfig(name="stranger")), name="stranger")
COMMAND = Path(sys.executable).with_name("coevolve")

COMMANDS = (
    ("report", "{run}"),
    ("export", "{run}", "merged", "--to", "{out}/merged"),
    ("export", "{run}", "rollouts", "--to", "{out}/rollouts"),
    ("evaluate", "{run}"),
    ("replay", "{run}"),
    ("resume", "{run}"),
    ("attach", "{run}", "status"),
    ("audit", "{run}"),
    ("journal", "verify", "{run}"),
)

USED = {"evaluate", "replay", "resume"}
"""Commands that cannot do without the class of a run."""

SHADOWS = (
    *("json", "coevolve", "sitecustomize", "usercustomize", "evil", "numpy", "torch"),
    *("orjson", "simplejson", "ray", "msgspec", "click", "typing_extensions", "readline"),
)


@dataclass(frozen=True)
class Stranger:
    """A run's folder from a stranger."""

    run: RunDirectory
    mark: Path
    """The file that its code would write."""

    @property
    def code(self) -> str:
        """A module that leaves the mark."""
        return f"open({str(self.mark)!r}, 'w').close()\nclass Tools:\n    '''Tools.'''\n"

    def write(self, *names: str) -> None:
        """Write modules into the folder."""
        for name in names:
            (self.run.path / f"{name}.py").write_text(self.code)

    def set(self, **changed: object) -> None:
        """Change settings, as somebody does who knows how the folder is written."""
        tree = msgspec.to_builtins(self.run.written_config()) | changed
        self.run.write_config(msgspec.convert(tree, RunConfig))


@dataclass(frozen=True)
class _Marks:
    mark: Path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def index(found: Stranger) -> None:
    move_to_checkpoint(found.run, 1)
    folder = found.run.path / "checkpoints/step_1"
    (folder / INDEX_FILE).write_bytes(pickle.dumps(_Marks(found.mark)))
    size = sum(each.stat().st_size for each in folder.iterdir())
    digest = folder_digest(folder)
    record = Checkpoint(step=1, path="checkpoints/step_1", digest=digest, size_bytes=size)
    journal = Journal.open(found.run.store)
    receipt = Receipt(producer="stranger", counter=1)
    journal.append(Append(records=(encode(record),), receipt=receipt)).result(10)
    journal.close()


def module(found: Stranger) -> None:
    found.write("evil")
    found.set(environment={"use": "evil:Tools", "tasks": "tasks.jsonl"})


def package(found: Stranger) -> None:
    found.write("__init__", "evil")
    name = found.run.path.name
    found.set(environment={"use": f"{name}.evil:Tools", "tasks": "tasks.jsonl"})


def shadows(found: Stranger) -> None:
    found.write(*SHADOWS)


def tracker(found: Stranger) -> None:
    found.write("evil")
    found.set(trackers={"use": ["evil:Tools"]})


def offer(found: Stranger) -> None:
    found.write("evil")
    folder = found.run.path / "evil-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[coevolve.environments]\nevil = evil:Tools\n")


def model_code(found: Stranger) -> None:
    folder = found.run.path / "model"
    shutil.copytree(TINY_FOLDER, folder, dirs_exist_ok=True)
    (folder / "evil.py").write_text(found.code)
    settings = json.loads((folder / "config.json").read_text())
    names = ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")
    settings |= {"model_type": "evil", "auto_map": dict.fromkeys(names, "evil.Tools")}
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).write_text(json.dumps(settings))


def link(found: Stranger) -> None:
    (found.run.path / "report.html").symlink_to(found.mark)
    shutil.rmtree(found.run.path / "logs", ignore_errors=True)
    _link(found, "launch.log", "metrics.jsonl", "config.yaml.new", "run.json.new", "launcher.lock")


def link_in_store(found: Stranger) -> None:
    _link(found, "store/lock.mdb", "store/new", "store/other.new")


def link_of_writer(found: Stranger) -> None:
    """A journal from another machine, whose first reader becomes its writer for a moment."""
    journal = Journal.open(found.run.store, boot="elsewhere")
    receipt = Receipt(producer="stranger", counter=1)
    record = encode(RunResumed(run_id="stranger", config="{}"))
    journal.append(Append(records=(record,), receipt=receipt)).result(10)
    journal.close()
    _link(found, "store/writer.lock")


def link_store(found: Stranger) -> None:
    outside = found.mark.with_name("outside")
    shutil.move(found.run.store, outside)
    found.run.store.symlink_to(outside)


def _link(found: Stranger, *names: str) -> None:
    for name in names:
        (found.run.path / name).unlink(missing_ok=True)
        (found.run.path / name).symlink_to(found.mark)


KINDS: tuple[Callable[[Stranger], None], ...] = (
    *(index, module, package, shadows, tracker, offer, model_code, link),
    *(link_in_store, link_of_writer, link_store),
)

LINKS = (link, link_in_store, link_of_writer, link_store)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the versions 0 and 1, which nobody changes."""
    root = tmp_path_factory.mktemp("made")
    run = write_run(root / "stranger", CONFIG, write_versions(root, CONFIG, (0, 1)))
    shutil.move(root / "versions", run.path / "versions")
    return run.path


@pytest.fixture
def stranger(made: Path, tmp_path: Path) -> Stranger:
    path = tmp_path / "stranger"
    shutil.copytree(made, path)
    return Stranger(RunDirectory(path), tmp_path / "mark")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_command_executes_anything_of_a_strangers_folder(
    kind: Callable[[Stranger], None],
    stranger: Stranger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    kind(stranger)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.chdir(stranger.run.path)
    for words in COMMANDS:
        answered(*(each.format(run=".", out=tmp_path) for each in words))
        assert not stranger.mark.exists(), words
    monkeypatch.chdir(tmp_path)
    for words in COMMANDS if kind in {module, package} else COMMANDS[:1]:
        answered(*(each.format(run="stranger", out=tmp_path / "out") for each in words))
        assert not stranger.mark.exists(), words
    with pytest.raises(JournalError) if kind in LINKS[1:] else nullcontext():
        assert Answers(RunsFolder(tmp_path)).to("runs/stranger", [])
    assert not stranger.mark.exists()


@pytest.mark.parametrize("path", ["../outside", "versions/../../outside", "{}/outside"])
@pytest.mark.parametrize("words", [COMMANDS[1], COMMANDS[3]], ids=lambda words: words[0])
def test_no_command_reads_weights_that_the_journal_places_outside(
    stranger: Stranger, tmp_path: Path, path: str, words: tuple[str, ...]
):
    outside = tmp_path / "outside"
    shutil.copytree(stranger.run.path / "versions" / "v_1", outside)
    record = encode(
        PolicyVersion(
            version=2,
            path="versions/v_2",
            format="full",
            digest=version_digest(outside, "full"),
            size_bytes=1,
            kept=True,
        )
    )
    tree = msgspec.msgpack.decode(record.body) | {"path": path.format(tmp_path)}
    hostile = msgspec.structs.replace(record, body=msgspec.msgpack.encode(tree))
    journal = Journal.open(stranger.run.store)
    receipt = Receipt(producer="stranger", counter=1)
    journal.append(Append(records=(hostile,), receipt=receipt)).result(10)
    journal.close()
    told = answered(*(each.format(run=stranger.run.path, out=tmp_path / "out") for each in words))
    assert told.returncode == 1
    assert "needs the path of a folder inside the run's" in told.stderr
    assert not (tmp_path / "out" / "merged").exists()


@pytest.mark.parametrize("kind", LINKS, ids=lambda kind: kind.__name__)
def test_no_command_changes_what_a_link_of_a_strangers_folder_leads_to(
    kind: Callable[[Stranger], None], stranger: Stranger, tmp_path: Path
):
    kind(stranger)
    stranger.mark.write_text("mine")
    outside = sorted((tmp_path / "outside").glob("*"))
    before = {each: each.read_bytes() for each in (stranger.mark, *outside)}
    for words in COMMANDS if kind is not link else COMMANDS[-3:] + COMMANDS[:1]:
        told = answered(*(each.format(run=stranger.run.path, out=tmp_path) for each in words))
        if kind is not link or words[0] == "resume":
            assert "found a link" in told.stdout + told.stderr, (words, told)
        assert {each: each.read_bytes() for each in before} == before, words
    assert sorted((tmp_path / "outside").glob("*")) == outside


@pytest.mark.parametrize("command", ["report", "resume"])
def test_the_command_itself_starts_in_a_strangers_folder_without_its_modules(
    stranger: Stranger, command: str
):
    module(stranger)
    shadows(stranger)
    done = subprocess.run(
        [COMMAND, command, "."],
        cwd=stranger.run.path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == (command == "resume")
    assert ("is in a run's folder" in done.stderr) == (command == "resume")
    assert not stranger.mark.exists()


@pytest.mark.parametrize("kind", [module, shadows, tracker, offer], ids=lambda kind: kind.__name__)
def test_no_command_imports_from_the_folder_where_the_user_stands(
    kind: Callable[[Stranger], None],
    stranger: Stranger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    kind(stranger)
    _move_out(stranger, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":/nowhere")
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(".")
    for words in (*COMMANDS, ("export", "{run}", "--help"), ("--help",)):
        if kind in {module, tracker} or words[0] != "resume":  # any other one starts
            answered(*(each.format(run="stranger", out=tmp_path / "out") for each in words))
        assert not stranger.mark.exists(), words
    assert Answers(RunsFolder(tmp_path)).to("runs/stranger", [])
    assert not stranger.mark.exists()


@pytest.mark.parametrize(
    "command",
    [*(each for each in COMMANDS if each[0] in USED), ("board", ".", "--port", "0")],
    ids=lambda words: words[0],
)
def test_the_command_itself_imports_nothing_from_a_folder_that_holds_runs(
    stranger: Stranger, tmp_path: Path, command: tuple[str, ...]
):
    module(stranger)
    shadows(stranger)
    _move_out(stranger, tmp_path)
    done = _called(tmp_path, *(each.format(run="stranger", out=tmp_path / "o") for each in command))
    assert not stranger.mark.exists()
    if command[0] in USED:
        assert done.returncode == 1
        assert "give --code . to a command on a run" in done.stderr


def test_a_run_of_an_own_class_is_read_without_it_and_used_with_it(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    module(stranger)
    monkeypatch.chdir(tmp_path)
    assert not is_in_run(tmp_path)
    assert is_in_run(stranger.run.path / "logs")
    for words in (("report",), ("attach", "status"), ("attach", "tasks"), ("attach", "signals")):
        told = answered(words[0], "stranger", *words[1:])
        assert told.returncode == 0, told
    told = answered("export", "stranger", "merged", "--to", str(tmp_path / "merged"))
    assert told.returncode == 0, told
    told = answered("export", "stranger", "rollouts", "--to", str(tmp_path / "out"))
    assert "give --code FOLDER" in told.stderr
    assert "there is no module 'evil'" in answered("replay", "stranger").stderr
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "evil.py").write_text("class Tools:\n    '''No tool.'''\n")
    for words in (("report",), ("replay",), ("evaluate",), ("resume",), ("attach", "status")):
        told = answered(words[0], "stranger", *words[1:], "--code", "code")
        assert told.returncode == 1
        assert "there is no module" not in told.stderr, words
        assert "Tools needs a method" in told.stderr, words
        sys.modules.pop("evil", None)


def _move_out(stranger: Stranger, holder: Path) -> None:
    """Move the modules of a stranger's run into the folder that holds the run."""
    for path in (*stranger.run.path.glob("*.py"), *stranger.run.path.glob("*.dist-info")):
        path.rename(holder / path.name)


def _called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call the installed command; what does not end by itself is interrupted."""
    process = subprocess.Popen(
        [COMMAND, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if words[0] == "board":
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, err)
