"""Refuses what an engine was not made for, and what it cannot have meant."""

import math
import textwrap
from pathlib import Path
from typing import Any, cast

from protocols.errors import ContractError, GeneratorError
from protocols.generation import Generation, GenerationRequest

SHORT = 400
"""Characters of another's error that are passed on; some list all that they know."""


def check_fits(request: GenerationRequest, max_length: int) -> None:
    """Check that there is a prompt, and room among ``max_length`` tokens for its answer.

    Raises ContractError: who asks has to keep to the run's limits.
    """
    length = len(request.prompt_ids) + request.max_tokens
    if not request.prompt_ids or length > max_length:
        raise ContractError(
            f"conversation {request.conversation_id!r} needs a prompt and room for its answer: "
            f"{len(request.prompt_ids)} + {request.max_tokens} tokens asked for, "
            f"{max_length} served; ask for no more than coevolve.rollouts.agent.room_left returns"
        )


def check_positions(config: Any, folder: Path, max_length: int) -> None:
    """Check that a model computes the positions of all conversations in the same way.

    A model that goes over to another table beyond some length would have it for the conversations
    beside a long one too, and not for tokens whose keys are cached. Raises GeneratorError.
    """
    found: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    by_layers = [cast("dict[str, Any]", each) for each in found.values() if isinstance(each, dict)]
    for settings in (found, *by_layers):
        kind = settings.get("rope_type") or ""
        limit = _same_up_to(kind, settings, config)
        if limit < max_length:
            raise GeneratorError(
                f"{folder}: a conversation may have {max_length} tokens, but beyond {limit} the "
                f"model computes all positions in another way (rope_type {kind}), so that learner "
                f"and engine would differ; lower rollout.max_tokens to {limit}"
            )


def _same_up_to(kind: str, settings: dict[str, Any], config: Any) -> float:
    """Return up to how many tokens positions are computed in one way."""
    if kind == "longrope":
        return settings["original_max_position_embeddings"]
    return config.max_position_embeddings if "dynamic" in kind else math.inf


def check_grammar(request: GenerationRequest) -> None:
    """Check that a generation ends where its grammar does.

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
    """Return what was sampled, or an error where its logprobs are no numbers: broken weights."""
    wrong = [each for each in generation.logprobs if not math.isfinite(each)]
    if not wrong:
        return generation
    return GeneratorError(
        f"{len(wrong)} of {len(generation.logprobs)} sampled tokens have the logprob {wrong[0]}: "
        "the weights that sampled, or their keys and values, hold what is no number"
    )


def in_short(error: Exception) -> str:
    """Return what an error of somebody else's says: the beginning, in one line."""
    return textwrap.shorten(str(error), SHORT, placeholder=" ...")


def refuse_grammar(request: GenerationRequest) -> None:
    """Raise GeneratorError where the request has a grammar."""
    if request.grammar is not None:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} asks for answers within a grammar, which "
            "vLLM is not used for here; choose rollout.engine.kind: transformers"
        )
