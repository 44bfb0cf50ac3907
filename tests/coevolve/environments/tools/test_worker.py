import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.stock import CLASSES
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Failed,
    Grade,
    Observed,
    Passed,
    Ready,
    Release,
    Reset,
)
from coevolve.environments.tools.endings import COMMAND_CPU_S, OUT_OF_MEMORY, OUT_OF_TIME
from coevolve.environments.tools.histories import MAX_SESSIONS
from coevolve.environments.tools.session import World
from coevolve.environments.tools.task import ToolTask, ToolTurn, read_body
from coevolve.environments.tools.toolsets import tool_documents
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import SimulatorConfig

Maker = Callable[[SimulatorConfig], ToolWorker]

BODY = ToolTask(
    classes=("GorillaFileSystem", "MathAPI"),
    world='{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}}',
    turns=(
        ToolTurn(instruction="make a", reference=("touch(file_name='a')",)),
        ToolTurn(instruction="list", reference=("ls()",)),
    ),
)
ROOT = Path(__file__).parents[4]


CONFINED = (
    "Max address space",
    "Max core file size",
    "Max file size",
    "Max processes",
    "Max open files",
)


def soft_limits(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:26].strip(): line[26:].split()[0] for line in lines}


def reset(session: str) -> Reset:
    return Reset(session=session, task=BODY)


def act(session: str, text: str) -> Act:
    return Act(session=session, text=text)


def grade(session: str) -> Grade:
    return Grade(session=session)


async def gone(pid: int, within_s: float = 10.0) -> bool:
    end = time.monotonic() + within_s
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.02)
    return True


async def test_a_child_imports_from_the_folders_of_pythonpath(
    open_worker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("/nowhere", "", "packages")))
    worker = open_worker(SimulatorConfig())
    assert await worker.execute([reset("x")]) == (Ready(),)
    folders = psutil.Process(worker.pid).environ()["PYTHONPATH"].split(os.pathsep)
    assert folders[0] == str(ROOT)
    assert folders[-2:] == ["/nowhere", str(tmp_path / "packages")]


async def test_commands_of_many_sessions_are_answered_in_order(worker: ToolWorker) -> None:
    assert await worker.execute(
        [
            reset("x"),
            reset("y"),
            act("x", "touch(file_name='a')"),
            act("y", "ls()"),
            grade("x"),
            grade("y"),
            act("x", "ls()"),
            grade("x"),
            Release(session="x"),
            act("x", "ls()"),
            Release(session="never opened"),
        ]
    ) == (
        Ready(),
        Ready(),
        Observed(result="None", failed=False),
        Observed(result='{"current_directory_content": []}', failed=False),
        Passed(),
        Failed(reason="instance_state_mismatch"),
        Observed(result='{"current_directory_content": ["a"]}', failed=False),
        Passed(),
        Ready(),
        Broken(reason="no session x is open here; its process was replaced"),
        Ready(),
    )
    assert worker.restarts == 0
    assert worker.cpu_s() > 0.0


async def test_a_killed_child_breaks_its_sessions_and_is_replaced(
    worker: ToolWorker, open_worker: Maker
) -> None:
    other = open_worker(SimulatorConfig())
    await asyncio.gather(worker.execute([reset("x")]), other.execute([reset("y")]))
    before = worker.pid
    spent = worker.cpu_s()
    os.kill(before, signal.SIGKILL)
    assert await gone(before)
    (lost,) = await worker.execute([act("x", "ls()")])
    assert isinstance(lost, Broken)
    assert await worker.execute([reset("x"), act("x", "ls()")]) == (
        Ready(),
        Observed(result='{"current_directory_content": []}', failed=False),
    )
    assert worker.pid not in (0, before)
    assert worker.restarts == 1
    assert worker.cpu_s() > spent
    assert (await other.execute([act("y", "ls()")]))[0] == Observed(
        result='{"current_directory_content": []}', failed=False
    )
    assert other.restarts == 0


async def test_a_stuck_child_is_broken_in_time_and_replaced(open_worker: Maker) -> None:
    worker = open_worker(SimulatorConfig(timeout_s=0.5))
    await worker.execute([reset("x")])
    stuck = worker.pid
    os.kill(stuck, signal.SIGSTOP)
    started = time.monotonic()
    replies = await worker.execute([act("x", "ls()"), grade("x"), Release(session="x")])
    assert time.monotonic() - started < 5.0
    assert [type(reply) for reply in replies] == [Broken, Broken, Ready]
    assert "no answer from the child within 1.25 s" in worker.last_error
    assert await gone(stuck)
    assert (await worker.execute([reset("x")]))[0] == Ready()
    assert worker.restarts == 1


async def test_a_child_that_dies_within_a_batch_breaks_all_of_it(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    child = worker.pid
    os.kill(child, signal.SIGSTOP)
    batch = asyncio.create_task(worker.execute([act("x", "ls()"), grade("x")]))
    await asyncio.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    replies = await batch
    assert [type(reply) for reply in replies] == [Broken, Broken]
    assert "the child ended with status -9" in worker.last_error


async def test_a_tree_that_multiplies_ends_its_own_session_alone(worker: ToolWorker) -> None:
    calls = ["mkdir(dir_name='x')"]
    for _ in range(26):  # each round doubles the paths through the tree, not the tree
        calls += [
            *(f"mkdir(dir_name='{name}')" for name in "abn"),
            *(f"cp(source='x', destination='{name}')" for name in "ab"),
            *(f"mv(source='{name}', destination='n')" for name in "ab"),
            "rm(file_name='x')",
            "mv(source='n', destination='x')",
        ]
    await worker.execute([reset("x"), reset("y"), act("y", "touch(file_name='a')")])
    replies = await worker.execute([act("x", call) for call in calls])
    ended = replies.index(OUT_OF_MEMORY.answer)
    assert not any(reply.failed for reply in replies[:ended] if isinstance(reply, Observed))
    assert set(replies[ended:]) == {OUT_OF_MEMORY.answer}
    observed, verdict, again, other = await worker.execute(
        [act("x", "find(name='zzz')"), grade("x"), grade("x"), grade("y")]
    )
    assert observed == OUT_OF_MEMORY.answer
    assert verdict == again == Failed(reason="out_of_memory")
    assert other == Passed()
    assert worker.restarts == 0
    fresh = [reset("x"), *(act("x", call) for call in calls)]
    assert (await worker.execute(fresh))[1:] == replies


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("power(base=7, exponent=10000000000)", "Exceeds the limit (4300 digits)"),
        ("power(-2, 9999999)", "Exceeds the limit (4300 digits)"),
        ("power(base=3, exponent=1000000000)", "Exceeds the limit (4300 digits)"),
        ("round_number(number=7, decimal_places=-1000000000)", '{"result": 0}'),
        ("logarithm(value=3, base=2, precision=10000)", "the precision is at most 1000 digits"),
        ("logarithm(value=3, base=2, precision=' 1_000_000 ')", "the precision is at most"),
        (f"logarithm(value='{'1' * 200}', base=2, precision=9)", "a number has at most"),
    ],
)
async def test_a_call_for_too_much_is_answered_without_the_work(
    worker: ToolWorker, call: str, answer: str
) -> None:
    (_,) = await worker.execute([reset("x")])
    before = worker.cpu_s()
    (reply,) = await worker.execute([act("x", call)])
    assert isinstance(reply, Observed)
    assert answer in reply.result
    assert worker.cpu_s() - before < COMMAND_CPU_S / 10


async def test_memory_is_limited_and_running_out_is_never_graded(open_worker: Maker) -> None:
    worker = open_worker(SimulatorConfig(memory_mb=64))
    task = next(
        read_body(task.body)
        for task in load_tasks(["long_context"])
        if "TravelAPI" in read_body(task.body).classes
    )
    replies = []
    for start in range(0, MAX_SESSIONS, 100):
        replies += await worker.execute(
            [Reset(session=str(number), task=task) for number in range(start, start + 100)]
        )
    kinds = {type(reply) for reply in replies}
    assert kinds == {Ready, Broken}
    (usual,) = await worker.execute([reset("x")])
    assert isinstance(usual, Ready | Broken)
    assert int(psutil.Process(worker.pid).memory_info().vms) <= 64 * 2**20


async def test_sessions_that_nobody_releases_are_forgotten_in_time(worker: ToolWorker) -> None:
    await worker.execute([reset(str(number)) for number in range(MAX_SESSIONS)])
    oldest, second, newest = await worker.execute(
        [act("0", "ls()"), reset("one more"), act("1", "ls()")]
    )
    assert isinstance(oldest, Observed)
    assert second == Ready()
    assert isinstance(newest, Broken)


async def test_the_child_is_confined(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    limits = soft_limits(worker.pid)
    assert {name: value for name, value in limits.items() if name in CONFINED} == {
        "Max address space": str(512 * 2**20),
        "Max core file size": "0",
        "Max file size": "0",
        "Max processes": "0",
        "Max open files": "0",
    }
    environment = psutil.Process(worker.pid).environ()
    assert environment.keys() <= {
        *("PYTHONPATH", "PYTHONHASHSEED", "LANG", "LC_CTYPE", "TZ"),
        "COEVOLVE_CACHE",
    }
    assert os.getsid(worker.pid) == worker.pid


async def test_a_task_that_does_not_load_breaks_its_session_alone(worker: ToolWorker) -> None:
    wrong = msgspec.structs.replace(BODY, world='{"GorillaFileSystem": {"root": {"x": 1}}}')
    broken, later, ready = await worker.execute(
        [Reset(session="x", task=wrong), act("x", "ls()"), reset("y")]
    )
    assert isinstance(broken, Broken)
    assert "world does not load" in broken.reason
    assert later == broken
    assert ready == Ready()
    await worker.execute([grade("y"), grade("y")])
    (beyond,) = await worker.execute([grade("y")])
    assert isinstance(beyond, Broken)
    assert worker.restarts == 0


async def test_text_that_utf8_cannot_encode_breaks_no_session(worker: ToolWorker) -> None:
    _, observed, fine = await worker.execute(
        [reset("x"), act("x", "echo(content='\ud800')"), act("x", "echo(content='é')")]
    )
    assert isinstance(observed, Observed)
    assert fine == Observed(result='{"terminal_output": "\\u00e9"}', failed=False)


async def test_a_cancelled_batch_costs_the_child_but_not_the_worker(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    child = worker.pid
    os.kill(child, signal.SIGSTOP)
    batch = asyncio.create_task(worker.execute([act("x", "ls()")]))
    await asyncio.sleep(0.1)
    batch.cancel()
    await asyncio.wait([batch])
    assert batch.cancelled()
    assert await gone(child)
    assert (await worker.execute([reset("x")]))[0] == Ready()


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        ("/bin/false", "the child ended with status 1"),
        ("/bin/no-such-program", "the child cannot be started"),
    ],
)
async def test_a_child_that_cannot_start_is_broken_and_says_why(python: str, reason: str) -> None:
    worker = ToolWorker(SimulatorConfig(), CLASSES, python=python)
    replies = await worker.execute([reset("x"), Release(session="x")])
    assert isinstance(replies[0], Broken)
    assert reason in replies[0].reason
    assert replies[1] == Ready()
    assert worker.pid == 0


async def test_a_closed_worker_answers_broken(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    child = worker.pid
    await worker.close()
    assert await gone(child)
    assert await worker.execute([act("x", "ls()")]) == [Broken(reason="the simulator is closed")]


async def test_a_child_dies_with_its_parent() -> None:
    program = (
        "import asyncio\n"
        "from coevolve.environments.tools.worker import ToolWorker\n"
        "from protocols.config import SimulatorConfig\n"
        "from coevolve.environments.tools.commands import Release\n"
        "async def main():\n"
        "    worker = ToolWorker(SimulatorConfig(), ())\n"
        "    await worker.execute([Release(session='x')])\n"
        "    print(worker.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=PIPE, cwd=ROOT
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    os.kill(child, signal.SIGSTOP)  # so that it cannot notice the end of its input
    parent.kill()
    await parent.wait()
    assert await gone(child)


async def test_a_call_that_cannot_be_interrupted_fails_its_own_session_alone(
    worker: ToolWorker,
) -> None:
    opened = [reset("x"), reset("y"), reset("z"), act("y", "touch(file_name='a')"), grade("y")]
    await worker.execute(opened)
    batch = [act("x", "ls()"), act("y", "ls()"), grade("x"), act("x", "ls()"), grade("y")]
    exhausted = worker.pid
    os.kill(exhausted, signal.SIGSTOP)
    under_way = asyncio.create_task(worker.execute([act("z", "ls()"), *batch]))
    await asyncio.sleep(0.1)
    # The child is at its first command, as if the command never returned.
    os.kill(exhausted, signal.SIGXCPU)
    os.kill(exhausted, signal.SIGCONT)
    of_z, *replies = await under_way
    assert (of_z, worker.restarts) == (OUT_OF_TIME.answer, 1)
    empty = Observed(result='{"current_directory_content": []}', failed=False)
    kept = Observed(result='{"current_directory_content": ["a"]}', failed=False)
    wrong = Failed(reason="instance_state_mismatch")
    assert replies == [empty, kept, wrong, empty, Passed()]
    assert await worker.execute([act("z", "ls()"), grade("z")]) == (
        OUT_OF_TIME.answer,
        Failed(reason="out_of_time"),
    )
    assert await worker.execute([reset("z"), act("z", "ls()")]) == (Ready(), empty)
    assert worker.restarts == 1


STUCK = """
class Stuck:
    def reset(self, world: dict) -> None:
        "Begin anew."

    def count(self) -> int:
        "Count for ever, in one function of the interpreter that no signal interrupts."
        return sum(range(10**15))
"""


async def test_the_cpu_limit_ends_a_call_that_no_signal_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = ToolWorker(SimulatorConfig(timeout_s=60.0), ("stuck:Stuck",))
    task = ToolTask(
        classes=("stuck:Stuck",), world="{}", turns=(ToolTurn(instruction="count", reference=()),)
    )
    replies = await worker.execute([Reset(session="x", task=task), act("x", "count()")])
    assert replies == (Ready(), OUT_OF_TIME.answer), worker.last_error
    assert worker.restarts == 1
    await worker.close()


async def test_a_guilty_session_may_be_opened_again_in_the_same_batch(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    os.kill(worker.pid, signal.SIGSTOP)
    batch = [act("x", "ls()"), grade("x"), reset("x"), act("x", "touch(file_name='a')")]
    under_way = asyncio.create_task(worker.execute([*batch, grade("x")]))
    await asyncio.sleep(0.1)
    os.kill(worker.pid, signal.SIGXCPU)
    os.kill(worker.pid, signal.SIGCONT)
    replies = await under_way
    assert replies[:3] == (OUT_OF_TIME.answer, Failed(reason="out_of_time"), Ready())
    assert replies[4] == Passed()


async def test_a_task_that_exhausts_a_child_is_nobody_s_failure(worker: ToolWorker) -> None:
    await worker.execute([reset("x")])
    os.kill(worker.pid, signal.SIGSTOP)
    under_way = asyncio.create_task(worker.execute([reset("y"), act("x", "ls()")]))
    await asyncio.sleep(0.1)
    os.kill(worker.pid, signal.SIGXCPU)
    os.kill(worker.pid, signal.SIGCONT)
    assert [type(reply) for reply in await under_way] == [Broken, Broken]
    assert (await worker.execute([reset("x")]))[0] == Ready()


async def test_a_call_of_many_nested_lists_breaks_no_session(open_worker: Maker) -> None:
    worker = open_worker(SimulatorConfig(memory_mb=400))
    huge = f"mean(numbers=[{', '.join(['[' * 8 + '1' + ']' * 8] * 900)}])"
    replies = await worker.execute([reset("x"), act("x", huge), reset("y"), act("y", "ls()")])
    assert len(replies) == 4
    assert not any(isinstance(reply, Broken) for reply in replies)


ODD = (
    *(
        "é()",
        "ls(é=1)",
        "ls(ﬁ='a')",
        "\U0001d48d\U0001d494()",
        "ls(ª=1)",
        "touch(file_name='é')",
        "ls('日本')",
    ),
    *("touch(file_name='\\N{BULLET}')", "ls('\\777')", "ls('\\d')", "\ufeffls()", "ls(\u200b)"),
    *("# -*- coding: latin-1 -*-\nls()", "# coding: nonsense\nls()", "ls()\x0c", "ls(0777)"),
    *("ls(0x)", "1if 1else 2", "ls(1_0)", "print(1)", "ls(1e400)", "ls(" + "9" * 5000 + ")"),
    *("ls(a=", "ls()()", "ls().x", "[].ls()", "ls(*[1])", "ls(**{})", "ls(f'{1}')", "''", ""),
    *("echo(content='\x00')", "echo('\U0010ffff')", "cd(folder='..')", "cat(file_name='/x')"),
    *("mean(numbers=['é'])", "power(base='é', exponent=2)", "divide(a=1, b=0)", "ls(b'x')"),
    *("grep(file_name='a', pattern='[')", "find(path='.', name='*')", "wc(file_name='a')"),
    *("square_root(number=2, precision=50)", "logarithm(value=2, base=3, precision=9)"),
    *("sort(file_name='a')", "diff(file_name1='a', file_name2='a')", "du(human_readable=True)"),
    *("round_number(number=1e308, decimal_places=400)", "absolute_value(number=-0.0)"),
    *("lambda: 0", "ls(lambda: 0)", "ls(x:=1)", "await ls()", "yield", "ls(...)", "ls(1j)"),
)
"""Odd texts that policies write."""


async def test_the_child_answers_odd_texts_as_a_world_in_this_process_does(
    worker: ToolWorker,
) -> None:
    tasks = [*(read_body(task.body) for task in load_tasks()), BODY]
    for body in {each.classes: each for each in tasks}.values():
        names = [document.name for name in body.classes for document in tool_documents(name)]
        odd = [f"{name}({argument})" for name in names for argument in ("'é'", "None", "1, -1")]
        world, texts = World(body), [*ODD, *odd]
        replies = await worker.execute(
            [Reset(session="x", task=body), *(act("x", text) for text in texts)]
        )
        for text, reply in zip(texts, replies[1:], strict=True):
            assert reply == world.call(text), text
            assert str(ROOT) not in str(reply)
            assert sys.prefix not in str(reply)
            assert " at 0x" not in str(reply)
    assert worker.restarts == 0


async def test_the_answers_of_a_batch_may_exceed_the_childs_memory(open_worker: Maker) -> None:
    worker = open_worker(SimulatorConfig(memory_mb=96))
    names = [str(number) for number in range(500)]
    await worker.execute([reset(name) for name in names])
    call = f"echo('{19_000 * chr(0x1F600)}')"
    replies = await worker.execute([act(name, call) for name in names])
    assert {type(reply) for reply in replies} == {Observed}
    assert sum(len(reply.result) for reply in replies if isinstance(reply, Observed)) > 96 * 2**20
    assert worker.restarts == 0
