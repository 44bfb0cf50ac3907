"""Steps on hardware designs that are worth training on, one JSON object a line.

With ``form chat`` a row has `messages` (the answer last), `design_id`, `transition_id`, `run_type`,
`author` and `stage`. With ``llamafactory`` it has `system`, `history`, `instruction`, `output`,
`dataset`, `context_id` and `run_type`, as in LLM4Cov's released data. `run_type` names the start of
the step: nothing (`direct_infer`), a failed simulation (`agentic_xrun`) or a testbench with
coverage (`agentic_coverage`).

The rows are the steps of the author that each stage learns from, after coverage-guided rejection
stage by stage. ``keep`` selects the rule. ``stage``: the stage's own rule; ``paper``, ``released``
and ``warm_up``: LLM4Cov's rules (`hdl.curation.rejection`); ``unfiltered``: all steps that ran. Of
the steps from one state in the whole stage, the one with the largest gain stays; training compares
only the steps of one group. ``unfiltered`` keeps all.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from coevolve.environments.hdl.curation.rejection import (
    PAPER,
    RELEASED,
    UNFILTERED,
    WARM_UP,
    Reason,
    RejectionRule,
    kept,
    reasons,
    reject,
    rule_of,
)
from coevolve.environments.hdl.curation.states import state_key
from coevolve.environments.hdl.policy.stages import is_learned_from, stage_of
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import (
    Author,
    Blank,
    ChatText,
    Graded,
    Transition,
    TransitionCost,
    coverage_of,
    graded_of,
)
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.sdk import (
    Source,
    TaskCache,
    all_of,
    has_chat_template,
    model_folder,
)
from protocols import columns
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import Reader
from protocols.rollouts import Rollout

if TYPE_CHECKING:
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer

RowForm = Literal["chat", "llamafactory"]


def run_type(transition: Transition) -> str:
    """Return the step's ``run_type`` in LLM4Cov's data."""
    if isinstance(transition.before, Blank):
        return "direct_infer"
    return "agentic_xrun" if coverage_of(transition.before) is None else "agentic_coverage"


def chat_row(transition: Transition) -> dict[str, object]:
    """Return one conversation whose last message is the training target."""
    messages = [{"role": each.role, "content": each.text} for each in _merge(transition.prompt)]
    messages.append({"role": "assistant", "content": transition.answer})
    return {
        "messages": messages,
        "design_id": transition.design_id,
        "transition_id": transition.transition_id,
        "run_type": run_type(transition),
        "author": f"{transition.author.name}@{transition.author.version}",
        "stage": transition.stage,
    }


def llamafactory_row(transition: Transition, dataset: str) -> dict[str, object]:
    """Return one row of LlamaFactory's alpaca form with history.

    Raises ValueError for an invalid prompt. A valid one has at most one system message, then user
    and assistant messages in turn, with a user message last.
    """
    messages = _merge(transition.prompt)
    system = messages[0].text if messages and messages[0].role == "system" else ""
    turns = messages[1:] if system else messages
    roles = [each.role for each in turns]
    if roles != ["user", "assistant"] * (len(turns) // 2) + ["user"]:
        raise ValueError(
            f"transition {transition.transition_id}: a LlamaFactory row needs a prompt of user and "
            f"assistant in turn, a user last, found {', '.join(roles) or 'no message'}"
        )
    return {
        "system": system,
        "history": [[turns[i].text, turns[i + 1].text] for i in range(0, len(turns) - 1, 2)],
        "instruction": turns[-1].text,
        "output": transition.answer,
        "dataset": dataset,
        "context_id": transition.design_id,
        "run_type": run_type(transition),
    }


def rows(
    transitions: Iterable[Transition], form: RowForm, dataset: str = "coevolve-hdl"
) -> Iterable[Mapping[str, object]]:
    """Return the rows in the order of the steps."""
    match form:
        case "chat":
            return (chat_row(each) for each in transitions)
        case "llamafactory":
            return (llamafactory_row(each, dataset) for each in transitions)


def write_rows(path: Path, lines: Iterable[Mapping[str, object]]) -> int:
    """Write the rows as JSONL and return their number."""
    count = 0
    with path.open("wb") as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
            count += 1
    return count


def _merge(prompt: Sequence[ChatText]) -> list[ChatText]:
    """Join consecutive messages of one role by an empty line."""
    merged: list[ChatText] = []
    for each in prompt:
        if merged and merged[-1].role == each.role:
            each = ChatText(role=each.role, text=f"{merged.pop().text}\n\n{each.text}")
        merged.append(each)
    return merged


Keep = Literal["stage", "paper", "released", "warm_up", "unfiltered"]

RULES: Mapping[Keep, RejectionRule] = {
    "paper": PAPER,
    "released": RELEASED,
    "warm_up": WARM_UP,
    "unfiltered": UNFILTERED,
}
"""The rule of each value of `keep` but ``stage``."""


async def write(source: Source, path: Path, *, form: RowForm, keep: Keep) -> str:
    """Write the rows to ``path`` and return a one-line summary.

    Raises RunError where the policy has no chat template, or its model folder has changed.
    """
    config, settings = source.config, hdl_settings(source.config)
    folder = model_folder(config.policy.model)
    if not has_chat_template(folder):
        raise RunError(
            f"exporting transitions needs a policy with a chat template, found {folder}, which has "
            "none; its steps have no text and can only be exported as rollouts"
        )
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer  # it loads transformers

    renderer = ChatStepRenderer.load(folder, config.policy.chat, settings)
    stages: dict[int, list[Transition]] = {}
    try:
        async for step in of_run(source.reader, config, renderer):
            if is_learned_from(settings.stages[step.stage], step.author.writer):
                stages.setdefault(step.stage, []).append(step)
    except ValueError as error:
        raise RunError(str(error)) from error
    chosen: list[Transition] = []
    counts = Counter[Reason]()
    for stage, steps in sorted(stages.items()):
        judged = reject(steps, RULES.get(keep) or rule_of(settings.stages[stage].rejection))
        chosen.extend(kept(judged))
        counts.update(reasons(judged))
    count = write_rows(path, rows(chosen, form, config.name))
    del counts["kept"]
    left_out = ", ".join(f"{number} {reason}" for reason, number in counts.most_common())
    return f"{count} steps{f'; left out: {left_out}' if left_out else ''}"


async def of_run(
    reader: Reader, config: RunConfig, renderer: "ChatStepRenderer"
) -> AsyncIterator[Transition]:
    """Yield every step of the run so far, in the order in which they ended.

    The prompt and the answer are decoded from the recorded tokens, so they are exactly what
    training uses. Steps without a grade and rollouts that retention evicted are left out.

    Raises ValueError if a prompt does not match ``renderer``'s template.
    """
    tasks = TaskCache(reader, coverage_task)
    async for rollout in all_of(reader, Rollout):
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
