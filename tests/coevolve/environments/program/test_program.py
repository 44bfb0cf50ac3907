"""Attempts of foreign programs, good and bad: what each gets, and that each ends."""

import asyncio
import contextlib
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from coevolve.environments.program.agent import ProgramAgent, ProgramOutcome
from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.program.tasks import ProgramTask
from coevolve.environments.program.worker import Programs, environment_of
from coevolve.rollouts.agent import Episode
from protocols import columns
from protocols.errors import GeneratorError, SimulatorError, SimulatorLostError
from protocols.tasks import Seeded, Task, body_of
from tests.gateways import TEMPLATE, SplittingGenerator, sampling_of

MAX_TOKENS = 256
ASK = '''
import json, sys, urllib.request, urllib.error

def ask(asked, *texts, **fields):
    """Talk with the policy; return what it said."""
    messages, said = [], []
    for text in texts:
        messages.append({"role": "user", "content": text})
        body = json.dumps({"model": asked["model"], "messages": messages, **fields}).encode()
        request = urllib.request.Request(asked["base_url"] + "/chat/completions", body)
        with urllib.request.urlopen(request) as answer:
            messages.append(json.load(answer)["choices"][0]["message"])
        said.append(messages[-1]["content"])
    return said

def say(asked, **result):
    print(json.dumps({"id": asked["id"], **result}))

for line in sys.stdin:
    asked = json.loads(line)
'''


def program(folder: Path, lines: str, **settings: Any) -> ProgramConfig:
    """Write a program that runs ``lines`` for each attempt."""
    path = folder / "agent.py"
    path.write_text(ASK + "".join(f"    {line}\n" for line in lines.splitlines()))
    return ProgramConfig(tasks="", command=(str(path),), **settings)


def task(**line: Any) -> Task:
    body = body_of(ProgramTask(line={"id": "one", **line}))
    return Task(task_id="one", split="train", origin=Seeded(source="test"), body=body)


class Running:
    """An agent, the engine behind it, and its simulator."""

    def __init__(self, settings: ProgramConfig, *script: str, max_tokens: int) -> None:
        self.engine = SplittingGenerator(TEMPLATE, script)
        self.programs = Programs(settings)
        sampling = sampling_of(self.engine, max_tokens)
        self.agent = ProgramAgent(settings, sampling, (self.programs,))

    async def attempt(self, number: int = 0, **line: Any) -> Episode:
        async with asyncio.timeout(180):
            return await self.agent.attempt(task(**line), f"s{number}", seed=number)


@contextlib.asynccontextmanager
async def running(
    settings: ProgramConfig, *script: str, max_tokens: int = MAX_TOKENS
) -> AsyncGenerator[Running]:
    found = Running(settings, *script, max_tokens=max_tokens)
    try:
        yield found
    finally:
        await found.programs.close()


def sampled(episode: Episode) -> list[int]:
    return [
        token
        for each in episode.conversations
        for token, mark in zip(columns.from_int32(each.token_ids), each.mask, strict=True)
        if mark
    ]


async def test_a_program_makes_an_attempt_and_gives_its_reward(tmp_path: Path) -> None:
    lines = "said = ask(asked, asked['task']['a'], 'b')\nsay(asked, reward=0.5)"
    async with running(program(tmp_path, lines, success=0.5), "One.", "Two.") as it:
        episode = await it.attempt(a="first")
        assert sampled(episode) == [token for each in it.engine.sampled for token in each]
        assert [each.text for each in episode.actions] == ["One.", "Two."]
        assert [each.result for each in episode.actions] == ["b", ""]
        assert (episode.reward, episode.succeeded, episode.ended) == (0.5, True, "finished")
        assert msgspec.msgpack.decode(episode.outcome, type=ProgramOutcome).messages == 2
        assert it.engine.released == ["s0"]
        assert it.programs.cpu_s() > 0


async def test_a_reward_below_the_threshold_is_no_success(tmp_path: Path) -> None:
    async with running(program(tmp_path, "ask(asked, 'a')\nsay(asked, reward=0.9)"), "x") as it:
        episode = await it.attempt()
        assert (episode.reward, episode.succeeded, episode.ended) == (0.9, False, "wrong")


async def test_what_the_policy_is_at_fault_for_ends_the_attempt_without_reward(tmp_path: Path):
    lines = "ask(asked, 'a')\nsay(asked, error='no JSON', fault='policy')"
    async with running(program(tmp_path, lines), "x") as it:
        episode = await it.attempt()
        assert (episode.reward, episode.succeeded, episode.ended) == (0.0, False, "program_stopped")
        assert msgspec.msgpack.decode(episode.outcome, type=ProgramOutcome).error == "no JSON"


async def test_a_conversation_without_room_is_too_long_whatever_the_program_does(tmp_path: Path):
    for last in ("say(asked, reward=1.0)", "say(asked, error='HTTP 400')", "sys.exit(1)"):
        lines = f"try: ask(asked, 'a', 'word ' * 300)\nexcept OSError: pass\n{last}"
        async with running(program(tmp_path, lines), "x") as it:
            episode = await it.attempt()
            assert (episode.reward, episode.succeeded, episode.ended) == (0.0, False, "too_long")


SUB_AGENT = """
plan = ask(asked, 'Plan.')
parts = [ask(asked, f'Helper {n}: ' + plan[0], 'Go on.') for n in range(2)]
say(asked, reward=1 if all(parts) else 0)
"""
COMPACTS = """
long = ask(asked, 'a', 'b', 'c')
summary = ask(asked, 'Summarize: ' + ' '.join(long))
ask(asked, 'Here is a summary: ' + summary[0], 'd')
say(asked, reward=1)
"""
FORMAT_ERROR = """
first = ask(asked, 'a')
second = ask(asked, 'a Format error.', 'b')
say(asked, reward=1)
"""


@pytest.mark.parametrize(
    ("lines", "conversations", "messages"),
    [(SUB_AGENT, 3, 5), (COMPACTS, 3, 6), (FORMAT_ERROR, 2, 3)],
    ids=["sub-agent", "compacts", "format error"],
)
async def test_a_program_may_have_several_conversations_for_one_reward(
    lines: str, conversations: int, messages: int, tmp_path: Path
) -> None:
    script = [f"Word {number}." for number in range(messages)]
    async with running(program(tmp_path, lines.strip()), *script, max_tokens=512) as it:
        episode = await it.attempt()
    assert len(episode.conversations) == conversations
    assert (episode.reward, episode.ended) == (1.0, "finished")
    assert sampled(episode) == [token for each in it.engine.sampled for token in each]
    assert len(episode.versions) == len(sampled(episode))
    assert sum(episode.traffic.branches.values()) == conversations - 1
    assert [each.text for each in episode.actions] == script


async def test_too_many_conversations_end_the_attempt_whatever_the_program_says(
    tmp_path: Path,
) -> None:
    lines = (
        "for n in range(17):\n    try: ask(asked, str(n))\n    except OSError: pass\n"
        "say(asked, reward=1)"
    )
    async with running(program(tmp_path, lines), *"abcdefghijklmnopq") as it:
        episode = await it.attempt()
    assert (episode.reward, episode.ended) == (0.0, "too_many_conversations")
    assert len(episode.conversations) == 16
    assert episode.traffic.refused == {"too_many_conversations": 1}


FAULTS: dict[str, tuple[str, str]] = {
    "asks nothing": ("say(asked, reward=1)", "the program never asked it"),
    "only nonsense": (
        "try: ask(asked, 'a', n=5)\nexcept OSError: pass\nsay(asked, reward=1)",
        "every request was refused: invalid_request",
    ),
    "machine": ("ask(asked, 'a')\nsay(asked, error='no network')", "no network"),
    "unknown fault": (
        "ask(asked, 'a')\nsay(asked, error='x', fault='mine')",
        "fault needs to be machine or policy, found 'mine'",
    ),
    "no reward": ("ask(asked, 'a')\nsay(asked)", "needs to give a reward, found None"),
    "a text": ("ask(asked, 'a')\nsay(asked, reward='1')", "found '1'"),
    "a truth value": ("ask(asked, 'a')\nsay(asked, reward=True)", "found True"),
    "above 1": ("ask(asked, 'a')\nsay(asked, reward=1.5)", "needs to be 0 to 1, found 1.5"),
    "below 0": ("ask(asked, 'a')\nsay(asked, reward=-1)", "needs to be 0 to 1, found -1"),
    "NaN": ("ask(asked, 'a')\nsay(asked, reward=float('nan'))", "found nan"),
    "infinite": ("ask(asked, 'a')\nsay(asked, reward=float('inf'))", "found inf"),
    "exits at once": ("sys.exit('no such model')", "ended with status 1: no such model"),
    "raises": ("ask(asked, 'a')\n1 / 0", "ZeroDivisionError"),
    "a token": ("ask(asked, 'a')\nsay(asked, error=asked['base_url'])", r"/s/\*\*\*/v1"),
    "another id": ("asked['id'] += 1\nsay(asked, reward=1)\nsys.exit(3)", "ended with status 3"),
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_what_says_nothing_of_the_policy_is_a_failed_attempt(kind: str, tmp_path: Path):
    lines, cause = FAULTS[kind]
    async with running(program(tmp_path, lines, patience_s=30), *"abc") as it:
        with pytest.raises(SimulatorError, match=cause):
            await it.attempt()


LEAVES = (
    "import os, subprocess, time\nask(asked, 'a')\n"
    "sleeping = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
    "pid = subprocess.Popen(sleeping, start_new_session=True).pid\n"
)
"""A program that leaves a process behind, in a session of its own, as MCP's clients do."""

ENDINGS = {
    "hangs": (
        'print(\'{"id": "1", "reward": 1}\'); time.sleep(600)',
        r'no reward within environment\.patience_s = 3 s; needs .*, found last {"id": "1", "rew',
    ),
    "is killed": ("os.kill(os.getpid(), 9)", "ended with status -9"),
    "exits": ("sys.exit(3)", "ended with status 3"),
    "is ended from outside": (
        "os.kill(os.getppid(), 15); time.sleep(600)",
        "ended with status -15",
    ),
}


@pytest.mark.parametrize("kind", ENDINGS)
async def test_what_a_program_started_ends_with_it(kind: str, tmp_path: Path) -> None:
    ends, cause = ENDINGS[kind]
    lines = f"{LEAVES}if asked['task'].get('ends'): {ends}\nsay(asked, reward=pid / 2**40)"
    async with running(program(tmp_path, lines, patience_s=3), *"abcdef") as it:
        reward = (await it.attempt()).reward
        left = psutil.Process(round(reward * 2**40))
        with pytest.raises(SimulatorError, match=cause):
            await it.attempt(1, ends=True)
        await asyncio.to_thread(psutil.wait_procs, [left], 20)
        assert not left.is_running()
        assert (await it.attempt(2)).reward != reward


async def test_what_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.environments.program.worker.KILLED_S", 1.0)
    leaves = LEAVES.replace(", start_new_session=True", "")
    lines = f"{leaves}os.kill(os.getppid(), 19)\nsay(asked, reward=pid / 2**40)"
    async with running(program(tmp_path, lines), "a") as it:
        left = os.pidfd_open(round((await it.attempt()).reward * 2**40))
    assert select.select([left], [], [], 20)[0]
    os.close(left)


async def test_a_program_that_signals_its_group_goes_on(tmp_path: Path) -> None:
    lines = (
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.killpg(0, signal.SIGTERM)\nask(asked, 'a')\nsay(asked, reward=1)"
    )
    async with running(program(tmp_path, lines), "a", "b") as it:
        assert [(await it.attempt(n)).reward for n in range(2)] == [1, 1]


async def test_noise_and_a_second_reward_change_nothing(tmp_path: Path) -> None:
    lines = (
        "print('noise', 5, '{')\nprint('[1]')\nprint('x' * (3 << 20))\n"
        "print('{\"id\": [], \"reward\": 1}')\nsys.stdout.buffer.write(b'\\xff\\n')\n"
        "ask(asked, 'a')\nprint('{\"id\": -1} ', end='')\n"
        "say(asked, reward=0.25)\nsay(asked, reward=1)"
    )
    async with running(program(tmp_path, lines), "x", "y") as it:
        assert [(await it.attempt(n)).reward for n in range(2)] == [0.25, 0.25]


@pytest.mark.parametrize(("end", "status"), [("os.kill(os.getpid(), 9)", -9), ("os._exit(3)", 3)])
async def test_attempts_share_a_process_and_only_one_that_ends_it_fails(
    tmp_path: Path, end: str, status: int
) -> None:
    go = tmp_path / "go"
    lines = (
        "import os, pathlib, threading, time\n"
        "def run(asked):\n"
        "    go = asked['task'].get('waits_for', sys.argv[0])\n"
        "    while not pathlib.Path(go).exists(): time.sleep(0.01)\n"
        "    ask(asked, 'a')\n    say(asked, reward=os.getpid() / 2**40)\n"
        f"if asked['task'].get('dies'): {end}\n"
        "threading.Thread(target=run, args=(asked,)).start()"
    )
    async with running(program(tmp_path, lines), *"abcdef") as it:
        together = await asyncio.gather(*(it.attempt(n) for n in range(3)))
        assert len({each.reward for each in together}) == 1
        beside = asyncio.ensure_future(it.attempt(4, waits_for=str(go)))
        with pytest.raises(SimulatorError, match=f"ended with status {status}"):
            await it.attempt(5, dies=True)
        go.touch()
        assert (await beside).reward != together[0].reward
        assert "s4+2" in it.engine.released


class Restarting(Programs):
    """A simulator whose process restarts, so that it loses attempts."""

    asked = 0

    async def answer(self, request: bytes) -> bytes:
        self.asked += 1
        raise SimulatorLostError("the actor is restarting")


async def test_a_simulator_that_restarts_does_not_draw_all_attempts(tmp_path: Path) -> None:
    settings = program(tmp_path, "ask(asked, 'a')\nsay(asked, reward=1)")
    async with running(settings, *"abc") as it:
        restarting = Restarting(settings)
        pool = (restarting, it.programs)
        it.agent = ProgramAgent(settings, sampling_of(it.engine), pool)
        assert [(await it.attempt(n)).reward for n in range(3)] == [1, 1, 1]
        assert restarting.asked == 1


async def test_an_engine_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    lines = "try: ask(asked, 'a')\nexcept OSError: pass\nsay(asked, reward=1)"
    async with running(program(tmp_path, lines)) as it:
        with pytest.raises(GeneratorError, match="the script has ended"):
            await it.attempt()


async def test_a_program_gets_few_variables_and_a_limit_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "RAY_AUTH_TOKEN", "MINE"):
        monkeypatch.setenv(name, "secret")
    lines = (
        "import os, resource\nask(asked, 'a')\n"
        "size = resource.getrlimit(resource.RLIMIT_AS)[0]\n"
        "say(asked, error=json.dumps([size, dict(os.environ)]), fault='policy')"
    )
    settings = program(tmp_path, lines, memory_mb=900, variables=("MINE",))
    async with running(settings, "x") as it:
        error = msgspec.msgpack.decode((await it.attempt()).outcome, type=ProgramOutcome).error
    assert error.startswith(f"[{900 << 20}")
    variables = environment_of(os.environ, settings)
    named = environment_of(os.environ, msgspec.structs.replace(settings, python="/mine/python"))
    assert named == variables | {"PATH": f"/mine:{os.environ['PATH']}"}
    assert {"PATH", "HOME", "MINE"} <= variables.keys()
    assert "secret" not in [value for name, value in variables.items() if name != "MINE"]


async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    settings = ProgramConfig(tasks="", command=(str(tmp_path / "nothing"),))
    async with running(settings) as it:
        with pytest.raises(SimulatorError, match="nothing: No such file"):
            await it.attempt()


async def test_the_program_dies_with_its_simulator(tmp_path: Path) -> None:
    settings = program(tmp_path, "import time\ntime.sleep(600)")
    code = (
        "import asyncio, psutil\n"
        "from coevolve.environments.program.settings import ProgramConfig\n"
        "from coevolve.environments.program.worker import Program\n"
        "async def main():\n"
        f"    settings = ProgramConfig(tasks='', command=({settings.command[0]!r},))\n"
        "    program = await Program.started(settings)\n"
        "    begin = psutil.Process(program._process.pid)\n"
        "    while not (found := begin.children()): await asyncio.sleep(0.01)\n"
        "    print(found[0].pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)
