"""Runs blocks of code in AppWorld's own shell, `AppWorld.execute`: the peer of the parity test.

``python stock.py PACKAGES TASK ANSWERS`` reads JSON, a list of blocks, and writes JSON, a list of
observations, into the file ANSWERS. ``APPWORLD_ROOT`` is the folder of the data.
It runs without coevolve.
"""
# pyright: basic, reportMissingImports=false

import json
import os
import sys
from pathlib import Path


def main(packages: str, task: str, answers: str) -> None:
    sys.path.insert(0, packages)
    from appworld.environment import AppWorld

    blocks = json.load(sys.stdin)
    world = AppWorld(task_id=task, experiment_name="stock")
    told = [world.execute(block) for block in blocks]
    Path(answers).write_text(json.dumps(told))
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
