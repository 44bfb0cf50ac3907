"""A tiny chat model that makes one call, whatever it is asked.

Random weights call no tool. A policy with this model does; so a run finds out which tools it never
calls.
"""

# transformers is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM

from coevolve.environments.registry import environment_of
from coevolve.environments.tools.chat.call_text import python_list
from coevolve.models.chat_template import ChatTemplate
from coevolve.models.tiny_random.model import write_model
from protocols.config import RunConfig

STEPS = 60


def write_calling_model(config: RunConfig, folder: Path, call: str) -> None:
    """Write the tiny random model of a run file into ``folder``, but let it say ``[call]``.

    Its layers add nothing, so each token depends on the one before alone; no token of the message
    may occur twice. The run file needs ``policy.chat.tools: prompt``.
    """
    write_model(config, folder, environment_of(config).texts())
    template = ChatTemplate.load(folder, variables={"enable_thinking": False})
    said = template.written({"role": "assistant", "content": python_list((call,))})
    before = template.after([{"role": "user", "content": "?"}])[-1:]
    assert len({*before, *said}) == 1 + len(said)
    ids = torch.tensor([[*before, *said]])
    model: Any = cast("Any", AutoModelForCausalLM.from_pretrained(folder))
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weights.zero_()
    optimizer = torch.optim.Adam([model.get_input_embeddings().weight], lr=0.04)
    for _ in range(STEPS):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
