"""OpenEnv servers: guess a number in four tries, and the same by MCP tools.

usage: python guess_server.py guess|tools PORT
"""

# The packages are in another Python environment.
# pyright: basic, reportMissingImports=false

import random
import sys
from typing import Any

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    """Guess a number."""

    number: int


class Hint(Observation):
    text: str = ""


class GuessEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def reset(self, seed: int | None = None, **given: Any) -> Hint:
        self.number, self.tries = random.Random(seed).randint(1, 9), 0
        return Hint(text="Guess a number from 1 to 9.", done=False, reward=0.0)

    def step(self, action: Guess, **given: Any) -> Hint:
        self.tries += 1
        if action.number == self.number:
            return Hint(text="right", done=True, reward=1.0)
        if not action.number:
            return Hint(text="nothing", done=True, reward=float("nan"))
        text = "lower" if action.number > self.number else "higher"
        return Hint(text=text, done=self.tries >= 4, reward=0.0)


class ToolEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def __init__(self) -> None:
        server = FastMCP("guess")
        server.tool(self.say_number)
        super().__init__(server)

    def say_number(self, number: int) -> str:
        """Say a number."""
        return f"you said {number}"

    def reset(self, **given: Any) -> Observation:
        return Observation(done=False, reward=0.0)

    def _step_impl(self, action: Action, **given: Any) -> Observation:
        raise ValueError("there are tools only")

    async def step_async(self, action: Action, **given: Any) -> Observation:
        found = await super().step_async(action, **given)
        is_right = isinstance(action, CallToolAction) and action.arguments.get("number") == 5
        return found.model_copy(update={"reward": float(is_right), "done": is_right})


SERVERS = {
    "guess": (GuessEnvironment, Guess, Hint),
    "tools": (ToolEnvironment, CallToolAction, CallToolObservation),
}

if __name__ == "__main__":
    app = create_fastapi_app(*SERVERS[sys.argv[1]], max_concurrent_envs=2)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
