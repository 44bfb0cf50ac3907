import asyncio
import contextlib
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.hdl.llm4cov.serve_queue import FOLDERS, DropFolder, serve, serve_folder
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated
from protocols.errors import ConfigError, RunError
from tests.conftest import ROOT
from tests.hdl_points import LEAF, TOP
from tests.hdl_simulators import ScriptedSimulator, until

RTL = {"leaf.sv": LEAF, "top.sv": TOP}


def stage(root: Path, job_id: str, testbench: str, changes: dict[str, Any]) -> Path:
    """Fill a job's folder as LLM4Cov's client does, with changes to its manifest."""
    staging = root / "incoming" / f"{job_id}.staging"
    inputs = staging / "inputs"
    inputs.mkdir(parents=True)
    files = {**RTL, "tb_top.sv": testbench}
    for name, text in files.items():
        (inputs / name).write_text(text)
    manifest = {
        "job_id": job_id,
        "dut": "top",
        "tb": "tb_top.sv",
        "sv_files": list(RTL),
        "cov_type": "all",
        "metrics": ["overall", "code", "fsm", "functional", "toggle", "block", "assertion"],
        "timeout": 30,
        "skip_detail": False,
        "inputs_sha256": {n: hashlib.sha256(t.encode()).hexdigest() for n, t in files.items()},
        "eda_repo_dir": "unused",
        "submitted_at": "2026-01-01 00:00:00",
    } | changes
    (staging / "manifest.json").write_text(json.dumps(manifest))
    return staging


def drop(root: Path, job_id: str, testbench: str = "module tb;", **changes: Any) -> None:
    """Submit a job."""
    stage(root, job_id, testbench, changes).rename(root / "incoming" / job_id)


def result(root: Path, job_id: str) -> dict[str, Any]:
    """Return a finished job's answer."""
    folder = root / "results" / job_id
    assert sorted(each.name for each in folder.iterdir()) == [".done", "result.json"]
    return json.loads((folder / "result.json").read_text())


async def served(
    root: Path, simulator: ScriptedSimulator, *, workers: int = 2, wait_s: float = 0.02
) -> None:
    """Serve until no job is waiting."""
    queue, stop = DropFolder(root), asyncio.Event()
    serving = asyncio.create_task(
        serve(queue, simulator, workers=workers, stop=stop, wait_s=wait_s)
    )
    await asyncio.to_thread(until, lambda: not queue.waiting())
    stop.set()
    await serving


async def test_a_job_is_answered_with_llm4covs_fields_and_removed(tmp_path: Path) -> None:
    simulator = ScriptedSimulator()
    drop(tmp_path, "top_1_abc")
    await served(tmp_path, simulator)
    found = result(tmp_path, "top_1_abc")
    assert (found["returncode"], found["status"], found["err_msg"]) == (0, "success", "")
    row = found["cov_info"]["summary"][0]
    assert (row["name"], row["level"]) == ("top", 0)
    assert isinstance(row["Overall Average"], float)
    assert "state DONE never entered" in found["cov_info"]["detail"]
    (request,) = simulator.requests
    assert [(file.name, file.text) for file in request.unit.files] == list(RTL.items())
    assert (request.unit.top, request.limits.cpu_s) == ("top", 4.0)
    assert list((tmp_path / "incoming").iterdir()) == list((tmp_path / "claims").iterdir()) == []


async def test_errors_use_the_clients_name_of_the_testbench(tmp_path: Path) -> None:
    drop(tmp_path, "j", testbench="broken", skip_detail=True, timeout=2)
    simulator = ScriptedSimulator()
    await served(tmp_path, simulator)
    found = result(tmp_path, "j")
    assert found["status"] == "xrun_failed"
    assert found["err_msg"] == "tb_top.sv:1:1: error: it is broken"
    limits = simulator.requests[0].limits
    assert (limits.cpu_s, limits.compile_cpu_s, limits.wall_s) == (2.0, 2.0, 6.0)


async def test_many_workers_answer_each_job_once(tmp_path: Path) -> None:
    simulator = ScriptedSimulator()
    for number in range(12):
        drop(tmp_path, f"job{number}", testbench=f"module tb{number};")
    await asyncio.gather(*(served(tmp_path, simulator, workers=3) for _ in range(3)))
    asked = [request.submission for request in simulator.requests]
    assert len(asked) == len(set(asked)) == 12
    for number in range(12):
        assert result(tmp_path, f"job{number}")["status"] == "success"


def test_a_job_whose_worker_is_killed_is_taken_by_the_next(tmp_path: Path) -> None:
    drop(tmp_path, "job")
    asked = tmp_path / "asked"
    program = (
        "import asyncio, sys; from pathlib import Path;"
        "from coevolve.environments.hdl.llm4cov.serve_queue import DropFolder;"
        "from coevolve.environments.hdl.llm4cov.serve_queue import serve;"
        "from tests.hdl_simulators import EndlessSimulator;"
        "root = Path(sys.argv[1]);"
        "asyncio.run(serve(DropFolder(root), EndlessSimulator(root / 'asked'), workers=1,"
        " stop=asyncio.Event()))"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    try:
        assert worker.poll() is None
        until(asked.exists)
        queue = DropFolder(tmp_path)
        with queue.claim("job") as held:
            assert not held
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait(10)
    asyncio.run(served(tmp_path, ScriptedSimulator()))
    assert result(tmp_path, "job")["status"] == "success"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tb": "../secret.sv"}, "`$.tb`"),
        ({"tb": "/etc/passwd"}, "`$.tb`"),
        ({"sv_files": []}, "`$.sv_files`"),
        ({"sv_files": ["top.sv", "gone.sv"]}, "gone.sv cannot be read"),
        ({"sv_files": ["link.sv"]}, "link.sv cannot be read"),
        ({"inputs_sha256": {}}, "inputs_sha256 needs an entry for leaf.sv"),
        ({"inputs_sha256": {"leaf.sv": "0" * 64}}, "leaf.sv must have SHA-256 0000"),
        ({"job_id": "other"}, "job_id must be 'j', found 'other'"),
        ({"cov_type": "block"}, "cov_type must be 'all'"),
        ({"timeout": 0}, "`$.timeout`"),
    ],
)
async def test_a_broken_manifest_is_answered_as_an_exception(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    secret = tmp_path / "secret.sv"
    secret.write_text("SECRET")
    DropFolder(tmp_path)
    staged = stage(tmp_path, "j", "module tb;", changes)
    (staged / "inputs" / "link.sv").symlink_to(secret)
    simulator = ScriptedSimulator()
    await served(tmp_path, simulator, workers=1)
    assert staged.exists()  # a client may still be writing it
    staged.rename(tmp_path / "incoming" / "j")
    await served(tmp_path, simulator, workers=1)
    found = result(tmp_path, "j")
    assert (found["status"], simulator.requests) == ("exception", [])
    assert words in found["err_msg"]
    assert secret.read_text() == "SECRET"


@pytest.mark.parametrize("text", [None, "{", "[]", '{"x":' + "[" * 100_000])
async def test_a_job_without_a_manifest_is_answered_too(tmp_path: Path, text: str | None) -> None:
    drop(tmp_path, "j")
    manifest = tmp_path / "incoming" / "j" / "manifest.json"
    manifest.unlink()
    if text is not None:
        manifest.write_text(text)
    await served(tmp_path, ScriptedSimulator())
    assert result(tmp_path, "j")["status"] == "exception"


async def test_a_job_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    drop(outside, "j")
    DropFolder(tmp_path)
    (tmp_path / "incoming" / "j").symlink_to(outside / "incoming" / "j")
    await served(tmp_path, ScriptedSimulator())
    assert result(tmp_path, "j")["status"] == "exception"
    assert (outside / "incoming" / "j" / "manifest.json").exists()


@pytest.mark.parametrize(
    "kind", ["a link", "a link to an answer", "a broken link", "a link to another job", "a file"]
)
async def test_a_job_whose_result_folder_is_a_link_is_answered_and_not_through_it(
    tmp_path: Path, kind: str
) -> None:
    drop(tmp_path, "j")
    DropFolder(tmp_path)
    outside, place = tmp_path / "outside", tmp_path / "results" / "j"
    outside.mkdir()
    if kind == "a link to an answer":
        (outside / ".done").touch()
    targets = {"a broken link": tmp_path / "gone", "a link to another job": Path("other")}
    (tmp_path / "results" / "other").mkdir()
    if kind == "a file":
        place.write_text("mine")
    else:
        place.symlink_to(targets.get(kind, outside))
    before = sorted(outside.iterdir())
    await served(tmp_path, ScriptedSimulator())
    assert not place.is_symlink()
    assert result(tmp_path, "j")["status"] == "success"
    assert sorted(outside.iterdir()) == before
    assert not any((tmp_path / "results" / "other").iterdir())
    assert not (tmp_path / "gone").exists()


async def test_a_job_that_cannot_be_answered_stays_and_holds_up_no_other(
    tmp_path: Path, capsys
) -> None:
    drop(tmp_path, "j")
    queue = DropFolder(tmp_path)
    place = tmp_path / "results" / "j" / "result.json"
    (place / "full").mkdir(parents=True)
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve(queue, ScriptedSimulator(), workers=1, stop=stop, wait_s=0.02)
    )
    drop(tmp_path, "k")
    await asyncio.to_thread(until, (tmp_path / "results" / "k" / ".done").exists)
    stop.set()
    await serving
    assert queue.waiting() == ["j"]
    assert "job j cannot be answered" in capsys.readouterr().err


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder: the content of files, None for folders."""
    return {
        str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None
        for each in folder.rglob("*")
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder next to the queue's with what its owner wants to keep, a job among it."""
    found = tmp_path / "outside"
    drop(found, "theirs")
    (found / "precious").mkdir()
    (found / "precious" / "file").write_text("keep")
    (found / "plain").write_text("keep")
    return found


@pytest.mark.parametrize("target", [".", "precious", "incoming", "plain", "gone"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_part_of_the_queue_that_is_a_link_is_an_error_at_the_start(
    tmp_path: Path, outside: Path, name: str, target: str
) -> None:
    root, before = tmp_path / "queue", tree(outside)
    root.mkdir()
    (root / name).symlink_to(outside / target)
    with pytest.raises(RunError, match=f"{name}: the queue needs a folder here .* found a link"):
        serve_folder(root, 1)
    assert tree(outside) == before


@pytest.mark.parametrize("name", FOLDERS)
async def test_a_part_of_the_queue_that_becomes_a_link_ends_the_server_with_one_error(
    tmp_path: Path, outside: Path, name: str
) -> None:
    root, before = tmp_path / "queue", tree(outside)
    queue = DropFolder(root)
    serving = asyncio.create_task(
        serve(queue, ScriptedSimulator(), workers=3, stop=asyncio.Event(), wait_s=0.02)
    )
    drop(root, "j")
    await asyncio.to_thread(until, lambda: not queue.waiting())
    (root / name).rename(root / "moved")
    (root / name).symlink_to(outside)
    with pytest.raises(RunError, match=f"{name}: the queue needs a folder"):
        await asyncio.wait_for(serving, 10)
    assert tree(outside) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_no_operation_follows_a_part_that_became_a_link(
    tmp_path: Path, outside: Path, name: str
) -> None:
    drop(tmp_path / "queue", "theirs")
    queue, before = DropFolder(tmp_path / "queue"), tree(outside)
    (queue.root / name).rename(queue.root / "moved")
    (queue.root / name).symlink_to(outside / "incoming")
    with pytest.raises(OSError, match="Not a directory"), queue.claim("theirs"):
        pass
    with contextlib.suppress(NotADirectoryError):  # it needs no claims
        queue.finish("theirs", {"status": "success"})
    assert tree(outside) == before


def _link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "plain")


def _broken_link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "made")


def _circle(place: Path, outside: Path) -> None:
    del outside
    place.symlink_to(place.name)


def _folder(place: Path, outside: Path) -> None:
    del outside
    (place / "full").mkdir(parents=True)


def _socket(place: Path, outside: Path) -> None:
    del outside
    os.mknod(place, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("plant", [_link, _broken_link, _circle, _folder, _socket])
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_job_whose_lock_is_no_file_holds_up_no_other(
    tmp_path: Path,
    outside: Path,
    plant: Callable[[Path, Path], None],
    workers: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, before = tmp_path / "queue", tree(outside)
    queue, stop = DropFolder(root), asyncio.Event()
    plant(root / "claims" / "j.lock", outside)
    drop(root, "j")
    serving = asyncio.create_task(
        serve(queue, ScriptedSimulator(), workers=workers, stop=stop, wait_s=0.02)
    )
    for other in ("k", "l"):
        drop(root, other)
        await asyncio.to_thread(until, (root / "results" / other / ".done").exists)
    stop.set()
    await serving
    assert queue.waiting() == ["j"]
    assert (root / "incoming" / "j" / "manifest.json").exists()
    assert "job j cannot be answered" in capsys.readouterr().err
    assert tree(outside) == before


async def test_an_infrastructure_failure_is_retried_and_then_an_exception(tmp_path: Path) -> None:
    drop(tmp_path, "flaky")
    await served(tmp_path, ScriptedSimulator(broken=2), workers=1)
    assert result(tmp_path, "flaky")["status"] == "success"
    drop(tmp_path, "down")
    simulator = ScriptedSimulator(broken=99)
    await served(tmp_path, simulator, workers=1)
    found = result(tmp_path, "down")
    assert (found["status"], found["err_msg"]) == ("exception", "the compiler was not there")
    assert len(simulator.requests) == 3


async def test_a_design_that_does_not_compile_is_an_exception_at_once(tmp_path: Path) -> None:
    class Refusing(ScriptedSimulator):
        async def evaluate(self, request: Evaluate) -> Evaluated:
            self.requests.append(request)
            raise ConfigError("design top: top.sv:1:1: error: no")

    drop(tmp_path, "j")
    simulator = Refusing()
    await served(tmp_path, simulator, workers=1)
    assert "top.sv:1:1" in result(tmp_path, "j")["err_msg"]
    assert len(simulator.requests) == 1


def test_a_lock_of_a_job_that_was_answered_meanwhile_is_not_taken(tmp_path: Path) -> None:
    queue = DropFolder(tmp_path)
    drop(tmp_path, "j")
    with queue.claim("j") as first:
        assert first
        with queue.claim("j") as second:
            assert not second
        queue.finish("j", {"status": "success"})
    with queue.claim("j") as late:
        assert not late
    assert not any((tmp_path / "claims").iterdir())
