"""Worlds, calls and episodes per core-second of appworld, beside the engine's own shell in process.

``python -m tests.bench appworld --episodes 8`` counts CPU seconds of all processes, so that other
work on the machine matters little. An episode opens a task, runs 16 blocks with one call each,
compares the end state, and ends. The engine's own shell runs the same blocks in one process, as
`AppWorld.execute`; it has no interpreter of its own, and is not safe against the code.

``--leaks`` plays the episodes in a simulator instead, several at a time, and prints its memory,
processes and descriptors after the first tenth and at the end.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coevolve.environments.appworld.engines import Engine, Opened
from coevolve.environments.appworld.interpreter import Interpreter
from coevolve.environments.appworld.own import own_data, task_ids
from coevolve.environments.appworld.place import engine_folder, plain_python
from coevolve.environments.appworld.session import interpreter_settings, readable_folders
from coevolve.environments.sandbox.runner import Sandbox
from tests.bench.appworld_leaks import leaks

CALLS = 400
BLOCKS = 16
MANY = f"for _ in range({CALLS}):\n    song = apis.spotify.show_song(song_id=1)"
ONE = "print(apis.spotify.show_song(song_id=1))"

STOCK = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
task, episodes, many, one, blocks = sys.argv[2], int(sys.argv[3]), *sys.argv[4:6], int(sys.argv[6])
from appworld.environment import AppWorld
def opened():
    return AppWorld(task_id=task, experiment_name="bench", max_api_calls_per_interaction=None)
opened().close()
begun = time.process_time()
for _ in range(episodes):
    world = opened()
    world.close()
world = opened()
first = time.process_time()
world.execute(many)
second = time.process_time()
world.close()
third = time.process_time()
for _ in range(episodes):
    world = opened()
    for _ in range(blocks):
        world.execute(one)
    world.evaluate()
    world.close()
last = time.process_time()
told = (first - begun) / (episodes + 1), second - first, (last - third) / episodes
sys.__stdout__.write(json.dumps(told) + "\\n")
sys.__stdout__.flush()
os._exit(0)
"""


def main(arguments: list[str]) -> int:
    """Print a line for each figure: ours and the engine's own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench appworld", description=__doc__)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--leaks", action="store_true")
    given = parser.parse_args(arguments)
    if given.leaks:
        return asyncio.run(leaks(given.episodes))
    episodes = given.episodes
    data = own_data(0)
    (task,) = task_ids(("new-note",), 1)[:1]
    engine = Engine(data)
    engine.make([task])
    ours = _ours(engine, task, episodes)
    engine.close()
    stock = _stock(data, task, episodes)
    names = ("worlds opened", f"calls in a block of {CALLS}", f"episodes of {BLOCKS} calls")
    for name, count, mine, theirs in zip(names, (1, CALLS, 1), ours, stock, strict=True):
        sys.stdout.write(
            f"{name}: {count / mine:.1f} per core-second, the engine's own shell "
            f"{count / theirs:.1f} ({theirs / mine:.2f} of its speed)\n"
        )
    return 0


def _ours(engine: Engine, task: str, episodes: int) -> tuple[float, float, float]:
    """Return CPU seconds of a world, of the calls of one block, and of an episode."""
    sandbox = Sandbox(readable_folders())
    opened_s, own = 0.0, time.process_time()
    for _ in range(episodes):
        world = engine.open(task)
        opened_s += world.cpu_s()
        world.close()
    opened_s = (opened_s + time.process_time() - own) / episodes
    world = engine.open(task)
    interpreter = _interpreter(sandbox, world.opened)
    interpreter.run("x = 1", world.call)
    before, own = world.cpu_s(), time.process_time()
    interpreter.run(MANY, world.call)
    calls_s = world.cpu_s() - before + time.process_time() - own
    idle = _interpreter(sandbox, world.opened)
    idle.run("x = 1", world.call)
    for each in (interpreter, idle):
        each.close()
    calls_s += interpreter.cpu_s - idle.cpu_s
    world.close()
    spent, own = 0.0, time.process_time()
    for _ in range(episodes):
        spent += _episode(engine, sandbox, task)
    return opened_s, calls_s, (spent + time.process_time() - own) / episodes


def _episode(engine: Engine, sandbox: Sandbox, task: str) -> float:
    """Return the CPU seconds of an episode's two processes."""
    world = engine.open(task)
    interpreter = _interpreter(sandbox, world.opened)
    for _ in range(BLOCKS):
        interpreter.run(ONE, world.call)
    world.completed()
    world.digests()
    spent = world.cpu_s()
    interpreter.close()
    world.close()
    return spent + interpreter.cpu_s


def _interpreter(sandbox: Sandbox, opened: Opened) -> Interpreter:
    return Interpreter(sandbox, interpreter_settings(opened, block_s=100.0, memory_mb=1024))


def _stock(data: Path, task: str, episodes: int) -> tuple[float, float, float]:
    """Return the same of the engine's own shell."""
    with tempfile.TemporaryDirectory(prefix="appworld_") as folder:
        (Path(folder) / "data").symlink_to(data)
        counts = (str(episodes), MANY, ONE, str(BLOCKS))
        told = subprocess.run(
            [plain_python(), "-I", "-S", "-c", STOCK, engine_folder(), task, *counts],
            env={"APPWORLD_ROOT": folder, "APPWORLD_CACHE": folder, "HOME": folder},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    world_s, calls_s, episode_s = json.loads(told.stdout.splitlines()[-1])
    return world_s, calls_s, episode_s
