"""Checks at start-up that the engine can batch a model correctly.

The engine gives a model the mask and the positions of every row. A model that computes these itself
from a row, such as one with linear biases, fails or computes something else.
"""

from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from coevolve.engine.engine import Engine
from coevolve.engine.fitting import in_short
from coevolve.engine.masks import length_beyond_window
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest

PROMPTS = (4, 72)
"""Prompt lengths of two concurrent conversations; the second gets a separate forward. A model with
sliding layers gets a third, longer than their window."""

ANSWER_TOKENS = 4
TOLERANCE = {"float32": 1e-2, "bfloat16": 0.5}
"""Mean absolute difference of logprobs, by precision."""

_BROKEN = (ValueError, RuntimeError, TypeError, AttributeError, IndexError, GeneratorError)
"""Errors that models raise for a mask or a cache that they do not support."""


def check(model: PreTrainedModel, folder: Path, max_length: int) -> None:
    """Compare batched conversations with plain forwards. Raises GeneratorError."""
    try:
        difference = _difference(model, max_length)
    except _BROKEN as error:
        raise _unfit(model, folder, f"fails: {in_short(error)}") from error
    if not difference <= TOLERANCE[str(model.dtype).removeprefix("torch.")]:
        raise _unfit(model, folder, f"gives logprobs that are off by {difference:.2g} on average")


def _difference(model: PreTrainedModel, max_length: int) -> float:
    """Return the mean difference between logprobs in a batch and those of a plain forward."""
    beyond = length_beyond_window(model.config, max_length - ANSWER_TOKENS)
    lengths = PROMPTS if beyond is None else (*PROMPTS, beyond)
    positions = min(max_length, max(lengths) + ANSWER_TOKENS)
    engine = Engine[GenerationRequest](model, len(lengths), positions)
    vocabulary = model.config.get_text_config().vocab_size
    rng = np.random.default_rng(0)
    for length in lengths:
        count = max(1, min(length, positions - ANSWER_TOKENS))
        request = _request(f"{length}", rng.integers(vocabulary, size=count).tolist())
        engine.start(request, request)
    found: list[float] = []
    while engine.busy:
        for request, said in engine.tick():
            found += _differences(engine, request, said)
    return float(np.mean(found))


def _differences(
    engine: Engine[GenerationRequest], request: GenerationRequest, said: Generation | GeneratorError
) -> list[float]:
    if isinstance(said, GeneratorError):
        raise said
    (told,) = engine.probe([request.prompt_ids + said.token_ids])
    plain = told[-len(said.token_ids) :]
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
        f"{folder}: rollout.engine.kind transformers needs a model that accepts the mask and "
        f"the positions of each conversation, found {model.config.model_type}, which "
        f"{found}; choose rollout.engine.kind vllm, or another policy.model"
    )
