"""The whole command, on a run whose store alone lives: by the journal's map and from afar."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import ray

from actors.store import STORE_NAME, StoreActor
from coevolve.journal.journal import Journal
from coevolve.run import directory as run_directory
from coevolve.run.directory import RunDirectory
from protocols.config import RunConfig, StoreConfig
from protocols.control import RunStarted
from tests.evolving import story, write

ROOT = Path(__file__).parents[3]

LOOKS = (
    ("signals", "--json"),
    ("tasks", "--json"),
    ("lineage", "made-1", "--json"),
    ("tail", "signal", "--json"),
)


def attach(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coevolve.attach", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def begun(folder: Path, config: RunConfig) -> RunDirectory:
    """A run that wrote a journal and ended."""
    directory = run_directory.create(folder, config)
    started = RunStarted(
        run_id=directory.identity().run_id, config=msgspec.json.encode(config).decode()
    )
    journal = Journal.open(directory.store)
    write(journal, [started, *story()])
    journal.close()
    return directory


@pytest.fixture
def live(tmp_path: Path, quickstart: RunConfig) -> Iterator[RunDirectory]:
    """The same run with a store that lives."""
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
    yield directory
    cast("Any", ray).shutdown()


@pytest.mark.ray
def test_what_is_read_through_the_store_is_what_stands_in_its_map(live: RunDirectory):
    address = live.identity().address
    for command in LOOKS:
        near = attach(str(live.path), *command)
        afar = attach("--address", address, "quickstart", *command)
        assert near.returncode == 0, near.stderr
        assert afar.returncode == 0, afar.stderr
        assert near.stdout == afar.stdout != ""
    paused = attach("--address", address, "pause", "--json")
    assert paused.returncode == 0, paused.stderr
    for run in ((str(live.path),), ("--address", address)):
        status = json.loads(attach(*run, "status", "--json").stdout)
        assert (status["running"], status["paused"]) == (True, True)
        assert [part["part"] for part in status["parts"]] == ["store"]
    other = attach("--address", address, "other", "status")
    assert other.returncode == 1
    assert f"needs the run 'other' at '{address}'; runs there: quickstart" in other.stderr


def test_a_run_that_ended_is_looked_into_by_its_journal(tmp_path: Path, quickstart: RunConfig):
    directory = begun(tmp_path / "quickstart", quickstart)
    by_name = attach("--runs", str(tmp_path), "quickstart", "tasks")
    newest = attach("--runs", str(tmp_path), "tasks")
    assert by_name.stdout == newest.stdout
    assert "quickstart: does not run; what follows is from its journal" in newest.stdout
    lineage = attach(str(directory.path), "lineage", "made-2")
    assert lineage.returncode == 1
    assert lineage.stderr.startswith("coevolve: quickstart: no task has an id that begins with")


def test_a_synthesizer_that_cannot_be_is_refused_before_the_run_is_looked_for(tmp_path: Path):
    swap = attach("nowhere", "swap-synthesizer", "--base-url", "ftp://x", "--model", "m")
    assert swap.returncode == 1
    assert swap.stderr.startswith("coevolve: --base-url: needs a URL like")


def test_a_cluster_where_nothing_listens_is_refused(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        said = attach("--address", address, "status")
    assert said.returncode == 1
    assert f"nothing listens at '{address}'; a run's address stands in its run.json" in said.stderr
