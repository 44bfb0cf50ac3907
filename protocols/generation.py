"""What crosses between a rollout and the engine that samples from the policy."""

from typing import Annotated

import msgspec


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Continue a token sequence."""

    conversation_id: str
    """Requests of one conversation extend one another's tokens, so an engine may keep its cache."""

    prompt_ids: tuple[int, ...]
    """The whole conversation so far, exactly as it was generated and fed: never re-tokenised."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)]

    stop_ids: tuple[int, ...]
    """Generation ends after any of these; the stop token is part of what comes back."""

    temperature: Annotated[float, msgspec.Meta(ge=0.0)]
    """0 is greedy."""

    seed: int


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that were sampled; three tuples of equal length."""

    token_ids: tuple[int, ...]

    logprobs: tuple[float, ...]
    """Natural log, under the tempered distribution (the plain one where temperature is 0)."""

    versions: tuple[int, ...]
    """The policy version that sampled each token."""

    stopped: bool
    """Whether a stop token ended it; otherwise ``max_tokens`` did."""
