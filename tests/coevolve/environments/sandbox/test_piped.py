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

from coevolve.environments.sandbox.levels import LEVELS
from coevolve.environments.sandbox.piped import PipeBrokenError, PipedProgram
from coevolve.environments.sandbox.runner import Sandbox, StageLimits
from protocols.errors import DependencyError
from tests.coevolve.environments.sandbox.test_runner import waited_for_none

LIMITS = StageLimits(
    cpu_s=2, wall_s=20, memory_mb=400, file_mb=1, processes=4, output_bytes=200_000
)
Opened = Callable[..., PipedProgram]


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return Sandbox([], request.param)
    except DependencyError as error:
        pytest.skip(str(error))


@pytest.fixture
def opened(sandbox: Sandbox) -> Iterator[Opened]:
    work = Path(tempfile.mkdtemp(prefix="work_"))
    sandbox.own(work)
    programs: list[PipedProgram] = []

    def shell(script: str, limits: StageLimits = LIMITS) -> PipedProgram:
        argv = ["/bin/sh", "-c", script]
        programs.append(
            sandbox.open(
                argv, work=work, cwd=work, limits=limits, environment={"PATH": "/usr/bin:/bin"}
            )
        )
        return programs[-1]

    yield shell
    for program in programs:
        program.close()
    shutil.rmtree(work)


def test_exchanges_go_back_and_forth_until_it_is_closed(opened: Opened) -> None:
    program = opened("cat; echo last words >&2")
    for content in (b"first", b"x" * 60_000, b"\x00\xff\n"):
        program.renew(20)
        program.send(content)
        assert program.receive(len(content)) == content
    assert program.close().code == -9
    assert program.close() is program.close()


def test_each_exchange_has_its_own_time(opened: Opened) -> None:
    program = opened("cat", dataclasses.replace(LIMITS, wall_s=0.2))
    time.sleep(0.3)
    program.renew(20)
    program.send(b"x")
    assert program.receive(1) == b"x"
    program.renew(0.1)
    with pytest.raises(PipeBrokenError, match=r"takes more than 0\.1 s"):
        program.receive(1)


def test_a_program_that_ended_is_told_from_a_slow_one(opened: Opened) -> None:
    program = opened("echo why >&2; exec 0<&-; exit 3")
    with pytest.raises(PipeBrokenError, match="closed its output, or ended"):
        program.receive(1)
    end = program.close()
    assert (end.code, end.words) == (3, "why\n")
    slow = opened("sleep 30", dataclasses.replace(LIMITS, wall_s=0.3))
    with pytest.raises(PipeBrokenError, match=r"takes more than 0\.3 s"):
        slow.receive(1)
    with pytest.raises(PipeBrokenError, match=r"takes more than 0\.3 s"):
        slow.send(b"x" * 1_000_000)


def test_the_output_of_an_exchange_is_bounded(opened: Opened) -> None:
    program = opened("yes")
    program.receive(150_000)
    with pytest.raises(PipeBrokenError, match="writes more than 200000 bytes"):
        program.receive(50_001)
    program.renew(20)
    assert len(program.receive(150_000)) == 150_000


def test_a_flood_of_last_words_ends_nothing_but_the_program(opened: Opened) -> None:
    program = opened("yes >&2", dataclasses.replace(LIMITS, wall_s=0.5))
    with pytest.raises(PipeBrokenError):
        program.receive(1)
    assert 0 < len(program.close().words) <= 65_536


def test_cpu_seconds_are_bounded(opened: Opened) -> None:
    program = opened("while :; do :; done", dataclasses.replace(LIMITS, cpu_s=1))
    with pytest.raises(PipeBrokenError, match="ended"):
        program.receive(1)
    end = program.close()
    assert end.code < 0
    assert 0.8 < end.cpu_s < 3


def test_no_process_of_it_is_left(sandbox: Sandbox, opened: Opened) -> None:
    if sandbox.level == "limits" and os.geteuid() == 0:
        pytest.skip("root's processes are not counted")
    seconds = f"41.{secrets.randbelow(10**9)}"
    program = opened(f"sleep {seconds} & sleep {seconds} & echo x; sleep {seconds}")
    assert program.receive(2) == b"x\n"
    program.close()
    assert waited_for_none(seconds)


def test_it_ends_with_its_owners_process(sandbox: Sandbox) -> None:
    seconds = f"42.{secrets.randbelow(10**9)}"
    script = f"""
import os, tempfile
from pathlib import Path
from coevolve.environments.sandbox.runner import Sandbox
from tests.coevolve.environments.sandbox.test_piped import LIMITS
work = Path(tempfile.mkdtemp(prefix="work_"))
sandbox = Sandbox([], {sandbox.level!r})
sandbox.own(work)
program = sandbox.open(["/bin/sh", "-c", "echo x; exec sleep {seconds}"], work=work, cwd=work,
    limits=LIMITS, environment={{"PATH": "/usr/bin:/bin"}})
assert program.receive(2) == b"x\\n"
print(work, flush=True)
os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parents[4]
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    assert told.returncode == -9, told.stderr
    shutil.rmtree(told.stdout.strip())
    assert waited_for_none(seconds)


def test_it_ends_with_the_thread_that_opened_it(opened: Opened) -> None:
    programs: list[PipedProgram] = []

    def opening() -> None:
        programs.append(opened("echo x; exec sleep 30"))
        programs[0].receive(2)

    thread = threading.Thread(target=opening)
    thread.start()
    thread.join()
    with pytest.raises(PipeBrokenError, match="ended"):
        programs[0].receive(1)


def test_a_missing_program_is_told(opened: Opened) -> None:
    program = opened("exec /no/such/program")
    with pytest.raises(PipeBrokenError):
        program.receive(1)
    assert "/no/such/program" in program.close().words
