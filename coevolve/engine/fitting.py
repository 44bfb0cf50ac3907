"""Refuses what an engine was not made for, before it is taken up."""

from protocols.errors import GeneratorError
from protocols.generation import GenerationRequest


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
