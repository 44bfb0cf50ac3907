"""Messages between a rollout and the engine that samples from the policy."""

from typing import Annotated

import msgspec

END = -1
"""Used in place of a next state: the generation ends with this token."""


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed token sequences, as a finite automaton that starts in state 0."""

    states: tuple[tuple[tuple[int, int], ...], ...]
    """For each state, its allowed tokens as (token, next state) pairs."""

    def __post_init__(self) -> None:
        """Refuse an automaton that can get stuck."""
        if not self.states:
            raise ValueError("a grammar needs at least one state, got none")
        for number, edges in enumerate(self.states):
            if not edges:
                raise ValueError(f"every state of a grammar needs a token, state {number} has none")
            for token, following in edges:
                if token < 0 or not END <= following < len(self.states):
                    raise ValueError(
                        f"a grammar of {len(self.states)} states needs tokens >= 0 that lead to "
                        f"one of these states or to END, got token {token} to state {following}"
                    )

    @property
    def last_tokens(self) -> frozenset[int]:
        """Tokens that can end the sequence."""
        return frozenset(
            token for edges in self.states for token, following in edges if following == END
        )


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to continue a token sequence."""

    conversation_id: str
    """Requests of one conversation extend the same tokens, so an engine may reuse its KV cache."""

    prompt_ids: tuple[int, ...]
    """The whole conversation so far, exactly as generated and fed; never re-tokenized."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)]

    stop_ids: tuple[int, ...]
    """Generation ends after any of these tokens; the result includes the stop token."""

    temperature: Annotated[float, msgspec.Meta(ge=0.0)]
    """0 means greedy sampling."""

    seed: int

    grammar: Grammar | None = None
    """Restricts the answer; None for no restriction. Its last tokens are among ``stop_ids``."""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The sampled tokens; all tuples have the same length."""

    token_ids: tuple[int, ...]

    logprobs: tuple[float, ...]
    """Natural log, under the distribution after temperature (the plain one if temperature is 0).
    With a grammar, it is normalized over the allowed tokens."""

    versions: tuple[int, ...]
    """The policy version that sampled each token."""

    cache_versions: tuple[int, ...] = ()
    """For each token, the oldest policy version that computed the keys and values it attended to.
    Empty if the sampling version computed all of them."""

    stopped: bool
    """True if a stop token ended the generation, False if ``max_tokens`` did."""
