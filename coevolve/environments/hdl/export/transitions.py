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
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from coevolve.environments.hdl.curation import export
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
from coevolve.environments.hdl.policy.stages import is_learned_from
from coevolve.environments.hdl.policy.transition import Transition
from coevolve.environments.hdl.policy.transitions import of_run
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.sdk import Source, has_chat_template, model_folder
from protocols.errors import RunError

Keep = Literal["stage", "paper", "released", "warm_up", "unfiltered"]

RULES: Mapping[Keep, RejectionRule] = {
    "paper": PAPER,
    "released": RELEASED,
    "warm_up": WARM_UP,
    "unfiltered": UNFILTERED,
}
"""The rule of each value of `keep` but ``stage``."""


async def write(source: Source, path: Path, *, form: export.RowForm, keep: Keep) -> str:
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
    count = export.write(path, export.rows(chosen, form, config.name))
    del counts["kept"]
    left_out = ", ".join(f"{number} {reason}" for reason, number in counts.most_common())
    return f"{count} steps{f'; left out: {left_out}' if left_out else ''}"
