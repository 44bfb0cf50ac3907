"""Programs with helpers, and with a summary in place of their history, train in the whole loop."""

import json
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.environments.registry import environment_of
from coevolve.loop import run_here
from coevolve.models.tiny_random.model import write_model
from coevolve.models.tiny_random.resolve import MODEL, running
from protocols import columns
from protocols.learning import StepReport
from protocols.rollouts import FailedRollout, Rollout
from tests.one_process import everything

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("short_waits")]

PROGRAM = '''
import json, sys, threading, urllib.request

def ask(asked, *texts):
    """Talk with the policy, and return what it said last."""
    messages = []
    for text in texts:
        messages.append({"role": "user", "content": text})
        body = json.dumps({"model": asked["model"], "messages": messages}).encode()
        request = urllib.request.Request(asked["base_url"] + "/chat/completions", body)
        with urllib.request.urlopen(request) as answer:
            messages.append(json.load(answer)["choices"][0]["message"])
    return messages[-1]["content"] or ""

def run(asked):
    if asked["task"]["id"] == "helpers":
        plan = ask(asked, "Plan.")
        said = [ask(asked, f"Helper {n}: {plan}", "Go on.") for n in range(2)]
    else:
        long = ask(asked, "Begin.", "Go on.")
        said = [ask(asked, f"A summary: {long}", "End.")]
    text = "".join(said)
    print(json.dumps({"id": asked["id"], "reward": len(set(text)) % 5 / 4}), flush=True)

for line in sys.stdin:
    threading.Thread(target=run, args=(json.loads(line),)).start()
'''
SETTINGS = (
    *("rollout.group_size=4", "rollout.concurrent=8", "rollout.max_call_tokens=6"),
    *("learner.steps=2", "learner.groups_per_step=2", "learner.threads=1", "evaluator.every=2"),
)


async def test_programs_of_several_conversations_train_in_the_loop(tmp_path: Path) -> None:
    program, tasks = tmp_path / "agent.py", tmp_path / "tasks.jsonl"
    program.write_text(PROGRAM)
    lines = [json.dumps({"id": name}) for name in ("helpers", "summary", "held")]
    tasks.write_text("\n".join(lines))
    given = (f"environment.command=[{program}]", f"environment.tasks={tasks}")
    held = "environment.held_out=1"
    config = load_config("program_openai", (*SETTINGS, *given, held))
    folder = tmp_path / "run"
    folder.mkdir()
    write_model(config, folder / MODEL, environment_of(config).texts())
    store = await run_here(running(config, folder), folder)
    reports: list[StepReport] = await everything(store, StepReport)
    assert [each.step for each in reports] == [1, 2]
    assert not await everything(store, FailedRollout)
    rollouts: list[Rollout] = await everything(store, Rollout)
    assert len(rollouts) >= 2 * 2 * 4
    assert {len(each.conversations) for each in rollouts} <= {2, 3}
    for each in rollouts:
        assert len(each.actions) == (5 if len(each.conversations) == 3 else 4)
        assert sum(each.traffic.branches.values()) == len(each.further)
        for tokens in each.conversations:
            versions = columns.from_int32(tokens.versions)
            assert [version >= 0 for version in versions] == [mark == 1 for mark in tokens.mask]
    trained = sum(each.metrics["source/objective/tokens"] for each in reports)
    of_groups = {group.group_id for each in reports for group in each.groups}
    sampled = sum(each.sampled_tokens for each in rollouts if each.group_id in of_groups)
    assert 0 < trained <= sampled
