"""A run on the function-calling benchmark makes tasks with logins, look-ups and missing things.

The policy is a tiny chat model that only ever makes one call, and a scripted endpoint synthesizes
and reads (`tests.services`).
"""

import asyncio
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.history.directory import RunDirectory
from protocols.evolution import Admitted, CandidateVerdict
from protocols.tasks import Synthesized, Task
from tests.calling import write_calling_model
from tests.chat_server import serving
from tests.commands import answered
from tests.one_process import everything, run_in
from tests.services import REQUESTS, Kind, services_brain

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("short_waits")]

RUN_FILE = Path(__file__).parents[1] / "configs" / "bfcl_qwen3_4b.yaml"
SETTINGS = (
    *("policy.tiny_random=true", "policy.chat.tools=prompt", "rollout.engine={kind: transformers}"),
    *("policy.device=cpu", "learner.devices=1", "rollout.actors=1"),
    *("environment.seeds=1", "environment.held_out=1", "simulator.workers=1"),
    *("learner.steps=2", "learner.groups_per_step=1", "learner.mini_batches=1"),
    *("learner.learning_rate=1e-9", "learner.guard.action=none"),
    *("rollout.group_size=2", "rollout.max_call_tokens=64", "rollout.max_calls_per_turn=2"),
    *("evaluator.engine=rollout", "evaluator.every=2"),
    # From the first group on, all tools but one are rare.
    *("signals.rules=posterior", "signals.kinds=[rare]", "signals.rare_share=0.99"),
    *("evolve_every=1", "evolve_wait_s=60", "synthesizer.rounds=12"),
    # The policy solves nothing, so a task that nobody confirms stays out.
    *("validator.probes=1", "validator.not_yet_share=1"),
)


def test_a_run_makes_tasks_with_logins_look_ups_and_missing_things(tmp_path: Path) -> None:
    model = tmp_path / "calls-pwd"
    write_calling_model(load_config(RUN_FILE, SETTINGS), model, "pwd()")
    with serving(services_brain) as server:
        endpoint = f"{{kind: endpoint, base_url: '{server.base_url}', model: scripted}}"
        overrides = (
            *SETTINGS,
            f"policy.model={model}",
            "policy.tiny_random=false",
            f"synthesizer.model={endpoint}",
        )
        run, verdicts, tasks = asyncio.run(carried_out(tmp_path, overrides))
    confirmed = {
        each.candidate_id
        for each in verdicts
        if isinstance(each.outcome, Admitted) and each.reading.outcome == "confirmed"
    }
    made = {
        task.origin.candidate_id: task for task in tasks if isinstance(task.origin, Synthesized)
    }
    found = [kind_of(tool_task(task)) for task in made.values()]
    assert set(found) == {"login", "discover", "ask", "refuse"}
    assert set(made) <= confirmed
    assert answered("report", str(run.path)).returncode == 0
    shown = unescape((run.path / "report.html").read_text("utf-8"))
    for task in made.values():
        assert task.task_id in shown
        assert tool_task(task).turns[0].instruction[:80] in shown


async def carried_out(
    runs: Path, overrides: Sequence[str]
) -> tuple[RunDirectory, list[CandidateVerdict], list[Task]]:
    """Carry out the run in this process; return it with its verdicts and its tasks."""
    run, store = await run_in(runs, load_config(RUN_FILE, overrides))
    found = run, await everything(store, CandidateVerdict), await everything(store, Task)
    store._journal.close()
    return found


def kind_of(body: ToolTask) -> Kind:
    """Return the kind of the scripted request that a made task is, and check its form."""
    said = tuple(turn.instruction for turn in body.turns)
    request = next(r for r in REQUESTS if tuple(turn.instruction for turn in r.turns) == said)
    assert (request.kind in ("ask", "refuse")) == (body.turns[0].reference == ())
    assert (request.kind == "refuse") == bool(body.withheld)
    return request.kind
