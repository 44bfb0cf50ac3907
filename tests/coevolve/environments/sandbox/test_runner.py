import dataclasses
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coevolve.environments.sandbox import seccomp
from coevolve.environments.sandbox.bubblewrap import TEMPORARY_BYTES
from coevolve.environments.sandbox.levels import LEVELS, SandboxLevel
from coevolve.environments.sandbox.runner import Finished, Sandbox, StageLimits
from coevolve.environments.sandbox.supervision import found_program
from protocols.errors import DependencyError, SimulatorError

ROOT = os.geteuid() == 0
NOBODY = 65534
PYTHON = "/usr/bin/python3"

Run = Callable[..., Finished]


def limits(
    *, wall_s: float = 20.0, memory_mb: int = 400, processes: int = 12, output_bytes: int = 4000
) -> StageLimits:
    return StageLimits(
        cpu_s=1.0,
        wall_s=wall_s,
        memory_mb=memory_mb,
        file_mb=1,
        processes=processes,
        output_bytes=output_bytes,
    )


def opened(level: SandboxLevel) -> Sandbox:
    try:
        return Sandbox([], level)
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return opened(request.param)


@pytest.fixture
def work() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="work_"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run(sandbox: Sandbox, work: Path) -> Run:
    sandbox.own(work)

    def shell(script: str, bounds: StageLimits | None = None) -> Finished:
        return sandbox.run(
            ["/bin/sh", "-c", script],
            work=work,
            cwd=work,
            limits=bounds or limits(),
            environment={"GIVEN": "given", "PATH": "/usr/bin:/bin"},
        )

    return shell


def test_a_program_has_its_output_its_status_and_its_own_environment(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_SECRET", "secret")
    done = run('echo "$GIVEN $SANDBOX_SECRET"; pwd; echo two >&2; echo x > made; exit 3')
    assert (done.status, done.limit) == (3, "")
    assert done.output == f"given \n{work}\ntwo\n"
    assert (work / "made").read_text() == "x\n"


def test_open_files_and_core_dumps_are_bounded(run: Run) -> None:
    assert run("ulimit -n; ulimit -c").output == "256\n0\n"


def test_a_program_that_succeeds_has_reached_no_limit_whatever_it_prints(run: Run) -> None:
    done = run("echo 'cannot allocate memory'")
    assert (done.status, done.limit) == (0, "")


def test_no_other_user_enters_the_folder_of_a_program(sandbox: Sandbox, work: Path) -> None:
    work.chmod(0o777)
    inner = work / "outer/inner"
    inner.mkdir(parents=True)
    sandbox.own(work)
    assert work.stat().st_mode & 0o777 == 0o700
    assert inner.stat().st_uid == work.stat().st_uid


def test_a_signal_gives_a_negative_status(run: Run) -> None:
    done = run("kill -9 $$")
    assert (done.status, done.output) == (-9, "")


def test_cpu_seconds_are_bounded_and_counted(run: Run) -> None:
    done = run("while :; do :; done")
    assert (done.status < 0, done.limit) == (True, "cpu")
    assert 0.8 < done.cpu_s < 3


def test_a_program_that_ignores_the_first_signal_of_the_cpu_limit_is_killed(work: Path) -> None:
    sandbox = opened("limits")
    argv = ["/bin/sh", "-c", "trap '' XCPU; while :; do :; done"]
    done = sandbox.run(argv, work=work, cwd=work, limits=limits(), environment={})
    assert (done.status, done.limit) == (-9, "cpu")


def test_cpu_seconds_of_a_program_that_is_killed_are_counted(run: Run) -> None:
    bounds = dataclasses.replace(limits(wall_s=3.0), cpu_s=30.0)
    done = run("(while :; do :; done) & wait", bounds)
    assert done.limit == "wall"
    assert 0.1 < done.cpu_s < 5


def test_wall_clock_is_bounded(run: Run) -> None:
    done = run("sleep 30", limits(wall_s=0.5))
    assert (done.status, done.limit) == (-9, "wall")
    assert done.wall_s < 10


def test_output_is_bounded(run: Run) -> None:
    done = run("yes flood")
    assert (done.status, done.limit, len(done.output)) == (-9, "output", 4000)


def test_memory_and_files_are_bounded(run: Run, work: Path) -> None:
    script = (
        "try:\n x = bytearray(600 << 20)\nexcept MemoryError:\n raise SystemExit('std::bad_alloc')"
    )
    done = run(f'{PYTHON} -I -S -c "{script}"')
    assert (done.status, done.limit) == (1, "memory")
    run("head -c 3000000 /dev/zero > large")
    assert (work / "large").stat().st_size == 1 << 20


def test_processes_are_bounded_and_do_not_survive(sandbox: Sandbox, run: Run) -> None:
    if sandbox.level == "limits" and ROOT:
        pytest.skip("root's processes are not counted")
    seconds = f"40.{secrets.randbelow(10**9)}"
    done = run(f"while :; do sleep {seconds} & done")
    assert "fork" in done.output.lower()
    if sandbox.level != "limits":
        run(f"(sleep {seconds} &) ; setsid sleep {seconds} & exit 0")
    assert waited_for_none(seconds)


def waited_for_none(word: str) -> bool:
    """Return whether no process with the word in its command remains; a dead one has none."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not any(word.encode() in commands(path) for path in Path("/proc").glob("[0-9]*")):
            return True
        time.sleep(0.05)
    return False


def commands(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_there_is_no_network_and_no_way_into_other_processes(sandbox: Sandbox, run: Run) -> None:
    if sandbox.level == "limits":
        pytest.skip("only the other levels promise it")
    done = run(
        f"{PYTHON} -I -S -c 'import _socket; _socket.socket()'; unshare -U true; setsid true"
    )
    assert done.status != 0
    assert "PermissionError" in done.output
    assert "unshare failed: Operation not permitted" in done.output


def test_namespaces_hide_the_machine(work: Path) -> None:
    sandbox = opened("namespaces")
    outside = work.parent / f"outside_{work.name}"
    sandbox.own(work)
    done = sandbox.run(
        ["/bin/sh", "-c", f"cat /etc/passwd; ls /; hostname; echo x > {outside}; touch /usr/x /x"],
        work=work,
        cwd=work,
        limits=limits(),
        environment={"PATH": "/usr/bin:/bin"},
    )
    assert "root:x" not in done.output
    listed = done.output.split()
    assert {"home", "proc", "root", "var", "work"}.isdisjoint(listed)
    assert "sandbox" in listed
    assert not outside.exists()
    assert not Path("/usr/x").exists()


def test_a_namespace_has_a_small_temporary_folder(work: Path) -> None:
    sandbox = opened("namespaces")
    sandbox.own(work)
    argv = ["/usr/bin/stat", "-f", "-c", "%b %S", "/tmp"]
    done = sandbox.run(argv, work=work, cwd=work, limits=limits(), environment={})
    blocks, size = map(int, done.output.split())
    assert blocks * size == TEMPORARY_BYTES


def test_a_toolchain_is_readable(work: Path) -> None:
    tools = work / "tools"
    tools.mkdir()
    (tools / "tool").write_text("content")
    (tools / "tool").chmod(0o666)
    tools.chmod(0o777)
    inner = work / "inner"
    inner.mkdir()
    sandbox = Sandbox([tools])
    if sandbox.level != "namespaces":
        pytest.skip("other levels show all files")
    sandbox.own(inner)
    done = sandbox.run(
        ["/bin/sh", "-c", f"cat {tools}/tool; echo x > {tools}/tool"],
        work=inner,
        cwd=inner,
        limits=limits(),
        environment={},
    )
    assert done.output.startswith("content")
    assert (tools / "tool").read_text() == "content"


def test_a_missing_program_is_an_infrastructure_failure(sandbox: Sandbox, work: Path) -> None:
    sandbox.own(work)
    with pytest.raises(SimulatorError, match="/no/such/program"):
        sandbox.run(["/no/such/program"], work=work, cwd=work, limits=limits(), environment={})


def test_the_strongest_level_is_used_and_a_missing_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for level in LEVELS:
        try:
            assert Sandbox([], level).level == level
        except DependencyError:
            continue
        assert Sandbox([]).level == level
        break
    found_program.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DependencyError, match="bubblewrap"):
        Sandbox([], "namespaces")
    found_program.cache_clear()


def test_many_threads_may_run_at_once(work: Path) -> None:
    sandbox = Sandbox([])
    outputs: dict[int, str] = {}

    def one(number: int) -> None:
        folder = work / str(number)
        folder.mkdir()
        sandbox.own(folder)
        argv = ["/bin/sh", "-c", f"echo {number} > mine; cat mine"]
        done = sandbox.run(argv, work=folder, cwd=folder, limits=limits(), environment={})
        outputs[number] = done.output

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: f"{number}\n" for number in range(8)}


def test_the_filter_is_made_for_known_machines_only() -> None:
    for made in (seccomp.program, seccomp.seal):
        for machine in ("x86_64", "aarch64"):
            program = made(machine)
            assert len(program) % 8 == 0
            assert len(program) // 8 < 256
        assert made("x86_64") != made("aarch64")
        with pytest.raises(DependencyError, match="riscv64"):
            made("riscv64")


ASK_GROUPS = """
import sys, tempfile
from pathlib import Path
from coevolve.environments.sandbox.runner import PROBE, Sandbox
with tempfile.TemporaryDirectory() as folder:
    sandbox, work = Sandbox([], sys.argv[1]), Path(folder)
    sandbox.own(work)
    argv = ["/bin/sh", "-c", "/usr/bin/id -u; /usr/bin/id -G"]
    print(sandbox.run(argv, work=work, cwd=work, limits=PROBE, environment={}).output)
    print(work.stat().st_uid)
"""


@pytest.mark.skipif(not ROOT, reason="only root can become somebody else")
@pytest.mark.parametrize("level", ["namespaces", "seccomp"])
def test_a_program_that_root_starts_is_in_none_of_roots_groups(level: SandboxLevel) -> None:
    opened(level)
    told = subprocess.run(
        [sys.executable, "-c", ASK_GROUPS, level],
        extra_groups=[0, 4],
        capture_output=True,
        text=True,
        check=True,
    )
    user, *groups, owner = told.stdout.split()
    assert (user, groups) == (owner, [owner])
    assert int(owner) not in (0, NOBODY)


@pytest.mark.skipif(not ROOT, reason="only root can become somebody else")
def test_an_ordinary_user_has_the_same_sandbox() -> None:
    repository = Path(__file__).parents[4]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    readable = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "test", "-r", str(Path(__file__))],
        check=False,
    )
    if readable.returncode or not packages:
        pytest.skip("this checkout is for root alone")
    script = """
import tempfile
from pathlib import Path
from coevolve.environments.sandbox.levels import LEVELS
from coevolve.environments.sandbox.runner import Sandbox, StageLimits
bounds = StageLimits(
    cpu_s=1, wall_s=20, memory_mb=400, file_mb=1, processes=12, output_bytes=4000
)
for level in LEVELS:
    sandbox = Sandbox([], level)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sandbox.own(work)
        for text in (
            "echo hello > x; cat x", "while :; do sleep 9 & done", "kill -9 $$", "touch /x",
        ):
            done = sandbox.run(
                ["/bin/sh", "-c", text], work=work, cwd=work, limits=bounds,
                environment={"PATH": "/usr/bin:/bin"},
            )
            print(level, done.status, "Cannot fork" in done.output, "hello" in done.output)
"""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    told = subprocess.run(
        [*user, PYTHON, "-c", script],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join([str(repository), *packages])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.splitlines() == [
        line
        for level in LEVELS
        for line in (
            f"{level} 0 False True",
            f"{level} 2 True False",
            f"{level} -9 False False",
            f"{level} 1 False False",
        )
    ], told.stderr
