"""What crosses between a rollout and the engine that samples from the policy."""

from typing import Annotated

import msgspec

END = -1
"""In place of a next state: the generation ends with the token."""


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens may follow one another: a finite automaton that begins in state 0."""

    states: tuple[tuple[tuple[int, int], ...], ...]
    """Of each state the tokens that are allowed, each with the state that it leads to."""

    def __post_init__(self) -> None:
        """Refuse an automaton that could get stuck."""
        if not self.states:
            raise ValueError("a grammar needs at least one state, found none")
        for number, edges in enumerate(self.states):
            if not edges:
                raise ValueError(f"every state of a grammar needs a token, state {number} has none")
            for token, following in edges:
                if token < 0 or not END <= following < len(self.states):
                    raise ValueError(
                        f"a grammar of {len(self.states)} states needs tokens from 0 on that lead "
                        f"to one of them or to its end, found token {token} to {following}"
                    )

    @property
    def last_tokens(self) -> frozenset[int]:
        """Tokens that it ends with."""
        return frozenset(
            token for edges in self.states for token, following in edges if following == END
        )


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

    grammar: Grammar | None = None
    """Keeps the answer inside; None for no such thing. Its last tokens are among ``stop_ids``."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that were sampled; tuples of equal length."""

    token_ids: tuple[int, ...]

    logprobs: tuple[float, ...]
    """Natural log, under the tempered distribution (the plain one where temperature is 0); with a
    grammar, over the tokens that it allowed."""

    versions: tuple[int, ...]
    """The policy version that sampled each token."""

    cache_versions: tuple[int, ...] = ()
    """The oldest policy version whose keys and values each token was sampled over; empty where they
    were all made by the version that sampled."""

    stopped: bool
    """Whether a stop token ended it; otherwise ``max_tokens`` did."""
