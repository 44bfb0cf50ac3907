"""Servers of OpenEnv, in a Python environment of their own."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.python_folders import OwnPython
from protocols.errors import SimulatorError
from tests.coevolve.environments.program.test_program import running

pytestmark = [pytest.mark.programs, pytest.mark.timeout(1800)]

PACKAGES = ("openenv==0.10.0",)
SERVER = str(Path(__file__).with_name("guess_server.py"))


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    OwnPython(PACKAGES).make(print)


def settings(kind: str) -> ProgramConfig:
    command = ("coevolve:openenv_worker.py", "python", SERVER, kind, "{port}")
    return ProgramConfig(tasks="", command=command, python=PACKAGES)


def call(name: str, **arguments: object) -> str:
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{written}\n</tool_call>"


async def test_the_policy_acts_and_gets_the_servers_reward() -> None:
    right = random.Random(3).randint(1, 9)
    win, lose = call("act", number=right), call("act", number=10)
    nan = call("act", number=0)
    script = (call("act", number="x"), win, lose, lose, lose, lose, *[win] * 4, nan)
    async with running(settings("guess"), *script, max_tokens=8192) as it:
        line: dict[str, Any] = {"reset": {"seed": 3}, "prompt": "Play."}
        won, lost = await it.attempt(**line), await it.attempt(**line)
        assert (won.reward, lost.reward) == (1.0, 0.0)
        assert "VALIDATION_ERROR" in won.actions[0].result
        assert [each.result for each in lost.actions] == ["lower"] * 3 + [""]
        # The server has room for two.
        others = await asyncio.gather(*(it.attempt(n, **line) for n in range(4)))
        assert [each.reward for each in others] == [1.0] * 4
        with pytest.raises(SimulatorError, match="the last step needs a reward, found none"):
            await it.attempt(**line)


async def test_the_tools_of_a_server_of_mcp_tools_are_the_policys() -> None:
    script = (call("say_number", number=4), call("say_number", number=5))
    async with running(settings("tools"), *script, max_tokens=8192) as it:
        episode = await it.attempt(total="sum")
        assert episode.reward == 1.0
        assert "you said 4" in episode.actions[0].result
