"""Reads the steps of a run on designs from its journal.

A `Transition` is a graded rollout with its task. The prompt and the answer are decoded from the
recorded tokens, so they are exactly what training uses. Steps without a grade (malformed, too long,
failed) and rollouts that retention evicted are left out.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from coevolve.environments.hdl.curation.states import state_key
from coevolve.environments.hdl.policy.stages import stage_of
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import (
    Author,
    Graded,
    Transition,
    TransitionCost,
    graded_of,
)
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.sdk import TaskCache, all_rollouts
from protocols import columns
from protocols.config import RunConfig
from protocols.interfaces import Reader
from protocols.rollouts import Rollout

if TYPE_CHECKING:
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer


async def of_run(
    reader: Reader, config: RunConfig, renderer: "ChatStepRenderer"
) -> AsyncIterator[Transition]:
    """Yield every step of the run so far, in the order in which they ended.

    Raises ValueError if a prompt does not match ``renderer``'s template.
    """
    tasks = TaskCache(reader, coverage_task)
    async for rollout in all_rollouts(reader):
        graded = graded_of(rollout)
        if graded is not None:
            task = await tasks.get(rollout.task_id)
            yield _transition(config, renderer, task, rollout, graded)


def _transition(
    config: RunConfig,
    renderer: "ChatStepRenderer",
    task: CoverageTask,
    rollout: Rollout,
    graded: Graded,
) -> Transition:
    ids = columns.from_int32(rollout.tokens.token_ids)
    shown = rollout.tokens.mask.index(1)
    return Transition(
        transition_id=f"{rollout.group_id}/{rollout.index}",
        state_key=state_key(task.design, task.state),
        design_id=task.design,
        parent=task.parent,
        before=task.state,
        after=graded,
        form=task.form,
        prompt=renderer.shown(task, ids[:shown]),
        answer=renderer.said(ids[shown:]),
        author=_author(config, rollout),
        stage=stage_of(hdl_settings(config).stages, rollout.group),
        round=task.round,
        seed=rollout.seed,
        cost=TransitionCost(
            prompt_tokens=shown,
            answer_tokens=len(ids) - shown,
            simulator_calls=1,
            cpu_s=rollout.simulator_cpu_s,
            wall_s=rollout.wall_s,
        ),
    )


def _author(config: RunConfig, rollout: Rollout) -> Author:
    """Return the author of a rollout; only the policy has versions."""
    teacher, writer = hdl_settings(config).teacher.model, rollout.author
    return Author(
        writer=writer,
        name=teacher.model if writer == "teacher" and teacher is not None else writer,
        version=rollout.version_max if writer == "policy" else 0,
    )
