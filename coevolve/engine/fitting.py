"""Refuses what an engine was not made for, and what it cannot have meant."""

import math

from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest


def check_fits(request: GenerationRequest, max_length: int) -> None:
    """Check that there is a prompt, and room among ``max_length`` tokens for its answer.

    Raises GeneratorError.
    """
    length = len(request.prompt_ids) + request.max_tokens
    if not request.prompt_ids or length > max_length:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} needs a prompt and room for its answer: "
            f"{len(request.prompt_ids)} + {request.max_tokens} tokens asked for, "
            f"{max_length} served"
        )


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


def refuse_grammar(request: GenerationRequest) -> None:
    """Raise GeneratorError where the request has a grammar."""
    if request.grammar is not None:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} asks for answers within a grammar, which "
            "vLLM is not used for here; choose rollout.engine.kind: transformers"
        )
