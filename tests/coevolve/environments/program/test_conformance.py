"""A check attempts tasks without skill, and names those that this solves."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.environments.findings import EARNED, Finding
from coevolve.environments.registry import config_of, environment_of
from protocols.config import ChatConfig, PolicyConfig
from tests.coevolve.environments.tools.chat import models

LOOP = """
import json, sys, urllib.request
def ask(asked, messages, **fields):
    body = {"model": "m", "messages": messages, **fields}
    url = asked["base_url"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
TOOL = {"type": "function", "function": {"name": "open_door", "parameters": {
    "type": "object", "properties": {"wide": {"type": "boolean"}, "by": {"type": "integer"}}}}}
for line in sys.stdin:
    asked = json.loads(line)
    prompt = asked["task"]["prompt"]
    messages = [{"role": "user", "content": prompt}]
    try:
        said = {"reward": float(REWARD)}
    except OSError as error:
        said = {"error": str(error), "fault": "policy"}
    print(json.dumps({"id": asked["id"], **said}), flush=True)
"""

REWARDS = {
    "silence": "not ask(asked, messages)['content']",
    "an echo": "prompt in ask(asked, messages)['content']",
    "random answers": "ask(asked, messages)['content'] not in ('', prompt)",
    "random answers, by a call": "'tool_calls' in ask(asked, messages, tools=[TOOL])",
    "nothing": "'\\u2603' in ask(asked, messages)['content']",
}


async def earned(reward: str, folder: Path, **policy: Any) -> Finding:
    (folder / "mine.py").write_text(LOOP.replace("REWARD", reward))
    rows = [{"id": f"t{n}", "prompt": f"Open the door {n} times."} for n in range(4)]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    use = {
        "use": "program",
        "tasks": str(folder / "mine.jsonl"),
        "command": [str(folder / "mine.py")],
        "python": sys.executable,
    }
    config = msgspec.structs.replace(config_of(use), policy=PolicyConfig(**policy))
    environment = environment_of(config)
    return next(each for each in await environment.conformance(4) if each.check == EARNED)


@pytest.mark.parametrize("solver", REWARDS)
async def test_a_task_that_no_skill_solves_is_named(solver: str, tmp_path: Path) -> None:
    finding = await earned(REWARDS[solver], tmp_path)
    if solver == "nothing":
        assert (finding.state, finding.found.split(",")[0]) == ("holds", "4 tasks")
        return
    assert finding.state == "fails"
    assert "task 't" in finding.found
    assert f"{solver.split(',')[0]}" in finding.found


async def test_a_refused_request_is_told_also_where_the_program_blames_the_policy(tmp_path: Path):
    asks = "ask(asked, messages) and ask(asked, messages, response_format={'type': 'json_object'})"
    refused = await earned(asks, tmp_path)
    assert refused.state == "fails"
    assert "refuses a request" in refused.found
    assert "reward 0: HTTP Error 400" in refused.found


async def test_tools_need_a_model_that_takes_them(tmp_path: Path) -> None:
    offers = "ask(asked, messages, tools=[TOOL]) is None"
    model = str(models.save(models.PLAIN, tmp_path))
    (tmp_path / "model.safetensors").touch()
    refused = await earned(offers, tmp_path, model=model)
    assert refused.state == "fails"
    assert "every request was refused: invalid_request; HTTP Error 400" in refused.found
    taken: list[dict[str, Any]] = [
        {"model": model, "chat": ChatConfig(tools="signatures")},
        {"model": "nobody/nothing", "tiny_random": True},
    ]
    for policy in taken:
        assert (await earned(offers, tmp_path, **policy)).state == "holds"
