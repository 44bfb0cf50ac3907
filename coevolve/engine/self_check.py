"""Checks, before anything is served, that a model can be batched the way that the engine does it.

The engine gives a model the mask and the positions of every row. A model that makes its own from
what it finds in a row, as those with linear biases do, fails there or computes something else.
"""

from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from coevolve.engine.engine import Engine
from coevolve.engine.fitting import in_short
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest

PROMPTS = (4, 72)
"""Tokens of two conversations that are computed at once; the second has a forward of its own."""

ANSWER_TOKENS = 4
TOLERANCE = {"float32": 1e-2, "bfloat16": 0.5}
"""Mean absolute difference of logprobs, by precision."""

_BROKEN = (ValueError, RuntimeError, TypeError, AttributeError, IndexError, GeneratorError)
"""What models raise at a mask or a cache that they cannot work with."""


def check(model: PreTrainedModel, folder: Path, max_length: int) -> None:
    """Compare conversations in a batch with forwards of their own. Raises GeneratorError."""
    try:
        difference = _difference(model, max_length)
    except _BROKEN as error:
        raise _unfit(model, folder, f"fails: {in_short(error)}") from error
    if not difference <= TOLERANCE[str(model.dtype).removeprefix("torch.")]:
        raise _unfit(model, folder, f"gives logprobs that are off by {difference:.2g} on average")


def _difference(model: PreTrainedModel, max_length: int) -> float:
    """Return by how much logprobs in a batch differ from those of a plain forward, on average."""
    positions = min(max_length, max(PROMPTS) + ANSWER_TOKENS)
    engine = Engine[GenerationRequest](model, len(PROMPTS), positions)
    vocabulary = model.config.get_text_config().vocab_size
    rng = np.random.default_rng(0)
    for length in PROMPTS:
        count = max(1, min(length, positions - ANSWER_TOKENS))
        request = _request(f"{length}", rng.integers(vocabulary, size=count).tolist())
        engine.start(request, request)
    found: list[float] = []
    while engine.busy:
        for request, said in engine.tick():
            found += _apart(engine, request, said)
    return float(np.mean(found))


def _apart(
    engine: Engine[GenerationRequest], request: GenerationRequest, said: Generation | GeneratorError
) -> list[float]:
    if isinstance(said, GeneratorError):
        raise said
    plain = engine.probe(request.prompt_ids + said.token_ids)[-len(said.token_ids) :]
    return np.abs(np.subtract(plain, said.logprobs)).tolist()


def _request(name: str, prompt: list[int]) -> GenerationRequest:
    return GenerationRequest(
        conversation_id=name,
        prompt_ids=tuple(prompt),
        max_tokens=ANSWER_TOKENS,
        stop_ids=(),
        temperature=0.0,
        seed=0,
    )


def _unfit(model: PreTrainedModel, folder: Path, found: str) -> GeneratorError:
    return GeneratorError(
        f"{folder}: rollout.engine.kind transformers needs a model that takes the mask and the "
        f"positions of each conversation from outside, found {model.config.model_type}, which "
        f"{found}; choose rollout.engine.kind vllm, or another policy.model"
    )
