"""Facts about processes, signals and asyncio's handlers."""

import asyncio
import contextlib
import fcntl
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.timeout(60)

SLEEP = "import time; print('up', flush=True); time.sleep(50)"
PATIENCE_S = 20.0


@contextlib.contextmanager
def child(code: str, *words: str, **options: object) -> Generator[subprocess.Popen[str]]:
    """Yield a Python process that has said that it is up; kill it after the block."""
    command = [*words, sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_signal_to_a_group_misses_a_child_that_leads_a_session():
    """A signal to a process group does not reach a child that leads a session of its own.

    Needed by: coevolve/launcher/session.py, coevolve/runs/guard.py
    """
    leads = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], "
    code = f"{leads} start_new_session=True).wait()"
    with child(code, start_new_session=True) as parent:
        (grandchild,) = psutil.Process(parent.pid).children()
        os.killpg(parent.pid, signal.SIGTERM)
        assert parent.wait(PATIENCE_S) == -signal.SIGTERM
        assert grandchild.is_running()
        assert os.getsid(grandchild.pid) == grandchild.pid
        grandchild.kill()


def test_timeout_signals_its_command_and_the_whole_group_of_it():
    """GNU timeout signals its command and then each process of the command's group.

    Needed by: coevolve/launcher/interrupts.py
    """
    counts = (
        "import signal, subprocess, sys, time\n"
        "seen = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: seen.append(time.monotonic()))\n"
        f"other = subprocess.Popen([sys.executable, '-c', {SLEEP!r}])\n"
        "other.wait()\n"
        "time.sleep(0.3)\n"
        "print(other.returncode, max(seen) - min(seen) < 0.5, flush=True)\n"
    )
    with child(counts, "timeout", "-s", "TERM", "3", start_new_session=True) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert said.split() == [str(-signal.SIGTERM), "True"]
    assert process.returncode == 124


def test_a_group_of_its_own_is_in_the_session_of_its_parent():
    """A child that leads a process group stays in the session of its parent.

    Needed by: coevolve/cli/keeping.py
    """
    with child(SLEEP, process_group=0) as process:
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == os.getsid(0)


def test_a_lock_ends_with_its_process_although_a_child_lives(tmp_path: Path):
    """The kernel frees a file's lock when its process is killed, also if a child lives on.

    Needed by: coevolve/runs/starting.py, coevolve/cli/attach_views/watch.py
    """
    path = tmp_path / "lock"
    path.touch()
    code = (
        "import fcntl, subprocess, sys\n"
        f"held = open({str(path)!r})\n"
        "fcntl.flock(held, fcntl.LOCK_EX)\n"
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).wait()\n"
    )
    with child(code) as process, path.open() as file:
        (grandchild,) = psutil.Process(process.pid).children()
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        process.kill()
        process.wait(PATIENCE_S)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert grandchild.is_running()
        grandchild.kill()


def test_a_descriptor_of_a_process_can_be_read_when_it_has_ended():
    """A pidfd becomes readable when its process ends, before its parent has waited for it.

    Needed by: coevolve/launcher/vital.py
    """
    with child(SLEEP) as process:
        descriptor = os.pidfd_open(process.pid)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(0) == []
        os.kill(process.pid, signal.SIGKILL)
        assert [each for each, _ in poll.poll(1000 * PATIENCE_S)] == [descriptor]
        os.close(descriptor)


def test_a_pipe_ends_when_its_writer_is_killed():
    """A pipe reports its end when the process that holds its other end is killed.

    Needed by: coevolve/runs/guard.py
    """
    code = (
        "import subprocess, sys\n"
        "reads = 'import sys; sys.stdin.read(); print(\"ended\", flush=True)'\n"
        "subprocess.Popen([sys.executable, '-c', reads], stdin=subprocess.PIPE)\n"
        "print('up', flush=True)\n"
        "import time; time.sleep(50)\n"
    )
    with child(code) as process:
        process.kill()
        assert process.stdout is not None
        assert process.stdout.readline() == "ended\n"


def test_a_removed_file_is_still_named_by_the_descriptor_that_holds_it(tmp_path: Path):
    """The link of an open descriptor names the folders of a file that was removed.

    Needed by: coevolve/runs/sessions.py
    """
    folder = tmp_path / "session_2026_1"
    folder.mkdir()
    with (folder / "log").open("w") as file:
        (folder / "log").unlink()
        link = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    assert folder.name in link.parts


def test_a_loop_takes_signals_over_from_a_wakeup_descriptor():
    """A loop that adds a signal handler takes the wake-up descriptor of signals over.

    Needed by: coevolve/launcher/interrupts.py
    """

    async def main() -> list[str]:
        caught: list[str] = []
        came = asyncio.Event()

        def catch() -> None:
            caught.append("loop")
            came.set()

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, catch)
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(PATIENCE_S):
            await came.wait()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
        return caught

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        assert asyncio.run(main()) == ["loop"]
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


class TwoWordsError(Exception):
    """An error whose constructor takes two arguments, and passes on one."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} in {where}")


def test_an_error_with_two_arguments_does_not_survive_pickling():
    """An exception whose constructor takes more arguments than it passes on cannot be unpickled.

    Needed by: protocols/errors.py
    """
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        pickle.loads(pickle.dumps(TwoWordsError("a fault", "a file")))


PEAKS = """
import resource, subprocess, sys

def own_kb():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0])

if len(sys.argv) == 1:
    held = bytearray(60_000_000)
    del held
    assert own_kb() > 60_000
    subprocess.run([sys.executable, __file__, "child"], check=True)
else:
    assert own_kb() < 40_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 60_000
"""


def test_the_peak_of_a_programs_memory_begins_with_the_program(tmp_path: Path):
    """`VmHWM` is of a program alone; `ru_maxrss` begins with that of the process that started it.

    Needed by: coevolve/parts/status.py
    """
    program = tmp_path / "peaks.py"
    program.write_text(PEAKS)
    subprocess.run([sys.executable, program], check=True)
