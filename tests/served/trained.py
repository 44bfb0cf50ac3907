"""Compares what an engine reports for its samples with what the learner computes for them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from coevolve.learning.policy import Policy
from coevolve.models.weight_files import WEIGHTS_FILES, version_digest
from protocols.config import PolicyConfig
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, WeightsFormat
from protocols.numbers import MIN_TEMPERATURE
from tests.served.families import WINDOW
from tests.serving import VOCABULARY, ask

TEMPERATURES = (0.0, MIN_TEMPERATURE, 0.3, 1.0)
RANK, ALPHA = 4, 6
TURNS = 2
FLOAT32 = 5e-4
SPREAD = 0.05
"""Size of a step's change to a weight, against weights with a spread of 0.2."""


def trained(base: Path, run_dir: Path, number: int, train: WeightsFormat) -> tuple[Policy, Any]:
    """Return a policy whose every trainable weight has changed, and its published version."""
    config = PolicyConfig(model=str(base), train=train, lora_rank=RANK, lora_alpha=ALPHA)
    policy = Policy(config, base)
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += SPREAD * torch.randn(parameter.shape, generator=generator)
    folder = run_dir / f"versions/{number}"
    folder.mkdir(parents=True)
    policy.save(folder)
    return policy, PolicyVersion(
        version=number,
        path=f"versions/{number}",
        format=train,
        digest=version_digest(folder, train),
        size_bytes=(folder / WEIGHTS_FILES[train]).stat().st_size,
        kept=False,
        scale=ALPHA / RANK if train == "lora" else 0.0,
    )


async def apart(generator: Generator, policy: Policy) -> float:
    """Return the largest difference of logits over conversations at several temperatures.

    A logprob's difference is multiplied by its temperature. Each conversation has two turns, and
    becomes longer than a sliding window.
    """
    found: list[float] = []
    for temperature in TEMPERATURES:
        rng = np.random.default_rng(int(100 * temperature))
        ids = rng.integers(VOCABULARY, size=WINDOW - 4).tolist()
        for turn in range(TURNS):
            request = ask(
                f"{id(policy)} at {temperature}",
                ids,
                max_tokens=12,
                temperature=temperature,
                seed=turn,
            )
            said = await generator.generate(request)
            found.append(_difference(policy, request, said))
            ids = [*ids, *said.token_ids, *rng.integers(VOCABULARY, size=9).tolist()]
    return max(found)


@torch.no_grad()
def _difference(policy: Policy, request: GenerationRequest, said: Generation) -> float:
    ids_1_T = torch.tensor([request.prompt_ids + said.token_ids])
    mask_1_T = torch.zeros_like(ids_1_T, dtype=torch.bool)
    mask_1_T[:, len(request.prompt_ids) :] = True
    temperature = request.temperature or 1.0
    scored_N, _ = policy.logprobs(ids_1_T, mask_1_T, temperature=temperature)
    return temperature * float((torch.tensor(said.logprobs) - scored_N).abs().max())
