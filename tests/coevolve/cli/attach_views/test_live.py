"""The whole command on a run of which only the store runs: by its folder and by its cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import ray

from actors.remote_store import STORE_NAME
from actors.store import StoreActor
from coevolve.history.directory import RunDirectory
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig, StoreConfig
from protocols.control import RunStarted
from tests.commands import ROOT, Answer, answered, called
from tests.evolving import story, write

LOOKS = (
    ("signals", "--json"),
    ("tasks", "--json"),
    ("lineage", "made-1", "--json"),
    ("tail", "signal", "--json"),
)


ASKING = """
import dataclasses, json, sys
from tests.commands import answered
print(json.dumps([dataclasses.asdict(answered("attach", *each)) for each in json.load(sys.stdin)]))
"""


def attached(*questions: Sequence[str]) -> list[Answer]:
    """Return the answers of attach to several commands, run in a process outside the run."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING],
        input=json.dumps(questions),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [Answer(**answer) for answer in json.loads(done.stdout)]


def begun(folder: Path, config: RunConfig) -> RunDirectory:
    """Return a finished run with a journal."""
    directory = starting.create(folder, config)
    started = RunStarted(
        run_id=directory.identity().run_id, config=msgspec.json.encode(config).decode()
    )
    journal = Journal.open(directory.store)
    write(journal, [started, *story()])
    journal.close()
    return directory


@pytest.fixture
def live(tmp_path: Path, quickstart: RunConfig) -> Iterator[RunDirectory]:
    """The same run with a running store."""
    directory = begun(tmp_path / "quickstart", quickstart)
    identity = directory.identity()
    context: Any = ray.init(
        address="local",
        num_cpus=1,
        namespace=identity.namespace,
        include_dashboard=False,
        log_to_driver=False,
    )
    store: Any = StoreActor.options(name=STORE_NAME).remote(directory.store, StoreConfig())
    ray.get(store.status.remote())
    address = context.address_info["gcs_address"]
    directory.write_identity(msgspec.structs.replace(identity, address=address, pid=os.getpid()))
    with starting.launch_lock(directory):
        yield directory
    cast("Any", ray).shutdown()


@pytest.mark.ray
def test_reads_through_the_store_equal_reads_of_the_journal_file(live: RunDirectory):
    here, afar = (str(live.path),), ("--address", live.identity().address)
    runs = (here, (*afar, "quickstart"))
    looks = [(*run, *look) for look in LOOKS for run in runs]
    paused, other, *statuses = [
        (*afar, "pause", "--json"),
        (*afar, "other", "status"),
        (*here, "status", "--json"),
        (*afar, "status", "--json"),
    ]
    answers = attached(*looks, paused, other, *statuses)
    for near, far in zip(answers[: len(looks) : 2], answers[1 : len(looks) : 2], strict=True):
        assert (near.returncode, far.returncode) == (0, 0), near.stderr + far.stderr
        assert near.stdout == far.stdout != ""
    told, refused, *shown = answers[len(looks) :]
    assert told.returncode == 0, told.stderr
    assert refused.returncode == 1
    assert f"needs the run 'other' at '{afar[1]}'; runs found: quickstart" in refused.stderr
    for status in map(json.loads, (answer.stdout for answer in shown)):
        assert (status["running"], status["paused"]) == (True, True)
        assert [part["part"] for part in status["parts"]] == ["store"]


@pytest.mark.ray
def test_a_followed_topic_ends_quietly_when_it_is_interrupted(live: RunDirectory):
    process = subprocess.Popen(
        [sys.executable, "-m", "coevolve", "attach", str(live.path), "tail", "signal", "-f"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "signal" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.strip()) == (130, "coevolve: interrupted")


def test_a_finished_run_is_read_from_its_journal(tmp_path: Path, quickstart: RunConfig):
    directory = begun(tmp_path / "quickstart", quickstart)
    by_name = answered("attach", "--runs", str(tmp_path), "quickstart", "tasks")
    newest = answered("attach", "--runs", str(tmp_path), "tasks")
    assert by_name.stdout == newest.stdout
    assert "quickstart: not running; this is its state in the journal" in newest.stdout
    lineage = answered("attach", str(directory.path), "lineage", "made-2")
    assert lineage.returncode == 1
    assert lineage.stderr.startswith("coevolve: quickstart: no task has an id that begins with")


HOLD = """
import fcntl, os, sys
if os.getuid() == 0:
    os.setuid(65534)
file = os.fdopen(int(sys.argv[1]))
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""
"""Locks a file; as another user, where the tests run as root."""


def nobody(directory: RunDirectory) -> Path:
    return directory.path / "nothing"


def a_stranger(directory: RunDirectory) -> Path:
    (directory.path / starting.LOCK_FILE).write_text(str(os.getpid()))
    return directory.path / starting.LOCK_FILE


def another_file(directory: RunDirectory) -> Path:
    """Let the lock lead to a file that a process holds, such as the lock of a run."""
    own = directory.path.parent / "own.lock"
    own.write_text(str(os.getpid()))
    (directory.path / starting.LOCK_FILE).symlink_to(own)
    return own


def the_folder(directory: RunDirectory) -> Path:
    (directory.path / starting.LOCK_FILE).symlink_to(".")
    return directory.path / "run.json"


@pytest.mark.parametrize(
    "locked", [nobody, a_stranger, another_file, the_folder], ids=lambda locked: locked.__name__
)
def test_a_run_that_no_launcher_holds_is_not_joined_wherever_it_says_to_be(
    tmp_path: Path, quickstart: RunConfig, locked: Callable[[RunDirectory], Path]
):
    directory = begun(tmp_path / "quickstart", quickstart)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        directory.write_identity(
            msgspec.structs.replace(directory.identity(), address=address, pid=os.getpid())
        )
        with locked(directory).open("a") as file:
            holding = subprocess.Popen(
                [sys.executable, "-c", HOLD, str(file.fileno())],
                pass_fds=[file.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert holding.stdout is not None
        holding.stdout.readline()
        answers = [answered("attach", str(directory.path), each) for each in ("status", "stop")]
        holding.communicate()
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert "quickstart: not running; this is its state in the journal" in answers[0].stdout
    assert "quickstart: not running; continue it with" in answers[1].stderr


def test_an_invalid_synthesizer_is_refused_before_the_run_is_searched(tmp_path: Path):
    endpoint = ("--base-url", "http://x", "--model", "m")
    swap = called("attach", "nowhere", "swap-synthesizer", *endpoint, "--tries", "0")
    assert swap.returncode == 1
    assert swap.stderr.startswith("coevolve: --tries: needs `int` >= 1")


def test_a_cluster_where_nothing_listens_is_refused(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        said = answered("attach", "--address", address, "status")
    assert said.returncode == 1
    assert (
        f"nothing listens at '{address}'; the file run.json of a run holds its address"
        in said.stderr
    )
