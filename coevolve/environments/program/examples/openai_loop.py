"""An agent program with a loop of its own: two turns, and a reward for each right letter.

It reads a line of JSON for each attempt, and writes one with the reward.
"""

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI, BadRequestError


async def attempt(asked: dict[str, Any]) -> float:
    """Ask for a word's letters twice, in one conversation; return their share in the answers."""
    task, said = asked["task"], ""
    messages: list[Any] = [{"role": "user", "content": task["prompt"]}]
    async with AsyncOpenAI(base_url=asked["base_url"]) as client:
        for _ in range(2):
            answer = await client.chat.completions.create(model=asked["model"], messages=messages)
            said += answer.choices[0].message.content or ""
            messages += [answer.choices[0].message, {"role": "user", "content": "Again."}]
    return sum(letter in task["word"] for letter in said) / max(len(said), 1)


async def main() -> None:
    """Make attempts, any number at once, until there are no further lines."""

    async def answer(asked: dict[str, Any]) -> None:
        try:
            result: dict[str, Any] = {"reward": await attempt(asked)}
        except BadRequestError as error:  # such as a conversation that is too long
            result = {"error": str(error), "fault": "policy"}
        print(json.dumps({"id": asked["id"], **result}))

    async with asyncio.TaskGroup() as group:
        while line := await asyncio.to_thread(sys.stdin.readline):
            group.create_task(answer(json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main())
