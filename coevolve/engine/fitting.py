"""Checks requests, models and results of an engine."""

import math
import textwrap
from pathlib import Path
from typing import Any, cast

from protocols.errors import ContractError, GeneratorError
from protocols.generation import Generation, GenerationRequest

SHORT = 400
"""Maximum characters of a quoted error message; some libraries list everything they know."""


def check_fits(request: GenerationRequest, max_length: int) -> None:
    """Check that the prompt is not empty, and that ``max_length`` has room for its answer.

    Raises ContractError, because the caller must respect the run's limits.
    """
    length = len(request.prompt_ids) + request.max_tokens
    if not request.prompt_ids or length > max_length:
        raise ContractError(
            f"conversation {request.conversation_id!r} needs a prompt and room for its answer: it "
            f"requests {len(request.prompt_ids)} + {request.max_tokens} tokens, the maximum is "
            f"{max_length}; request at most coevolve.rollouts.agent.room_left"
        )


def check_positions(config: Any, folder: Path, max_length: int) -> None:
    """Check that a model computes the positions of all conversations with the same table.

    Some models switch to another table beyond some length. In a batch, this would also affect
    shorter conversations, but not tokens whose keys are already cached. Raises GeneratorError.
    """
    found: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    by_layers = [cast("dict[str, Any]", each) for each in found.values() if isinstance(each, dict)]
    for settings in (found, *by_layers):
        kind = settings.get("rope_type") or ""
        limit = _same_up_to(kind, settings, config)
        if limit < max_length:
            raise GeneratorError(
                f"{folder}: a conversation may have {max_length} tokens, but beyond {limit} the "
                f"model computes all positions differently (rope_type {kind}), so learner and "
                f"engine would differ; lower rollout.max_tokens to {limit}"
            )


def _same_up_to(kind: str, settings: dict[str, Any], config: Any) -> float:
    """Return the number of tokens up to which positions use one table."""
    if kind == "longrope":
        return settings["original_max_position_embeddings"]
    return config.max_position_embeddings if "dynamic" in kind else math.inf


def check_grammar(request: GenerationRequest) -> None:
    """Check that every last token of the grammar is a stop token.

    Raises GeneratorError.
    """
    if request.grammar is None:
        return
    unstopped = request.grammar.last_tokens.difference(request.stop_ids)
    if unstopped:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} needs the last tokens of its grammar among "
            f"its stop tokens, and lacks {sorted(unstopped)}"
        )


def checked(generation: Generation) -> Generation | GeneratorError:
    """Return the generation, or an error if a logprob is not finite, which means broken weights."""
    wrong = [each for each in generation.logprobs if not math.isfinite(each)]
    if not wrong:
        return generation
    return GeneratorError(
        f"{len(wrong)} of {len(generation.logprobs)} sampled tokens have the logprob {wrong[0]}: "
        "the weights that sampled, or their keys and values, are not finite"
    )


def in_short(error: Exception) -> str:
    """Return the beginning of another library's error message, in one line."""
    return textwrap.shorten(str(error), SHORT, placeholder=" ...")


def refuse_grammar(request: GenerationRequest) -> None:
    """Raise GeneratorError if the request has a grammar."""
    if request.grammar is not None:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} has a grammar, which the vLLM engine does "
            "not support; choose rollout.engine.kind: transformers"
        )
