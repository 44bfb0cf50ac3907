"""The grammars of requests, combined in one table of states.

Letters: R rows, S states, V vocabulary.

State 0 allows everything and leads to itself; requests without a grammar use it. The states of each
grammar are added with its first request; equal grammars share their states.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from protocols.errors import GeneratorError
from protocols.generation import END, Grammar

FREE = 0
MAX_ENTRIES = 2**26
"""Maximum size of the table, states times vocabulary, at 5 bytes each."""

Indices = npt.NDArray[np.int64]


class GrammarTable:
    """Gives the tokens that each state allows, and the states to which they lead."""

    def __init__(self, vocabulary: int) -> None:
        """``vocabulary`` is the number of tokens of the model."""
        self._vocabulary = vocabulary
        self._first: dict[Grammar, int] = {}
        self._allowed_S_V = torch.ones((1, vocabulary), dtype=torch.bool)
        self._following_S_V = np.full((1, vocabulary), FREE, dtype=np.int32)

    def enter(self, grammar: Grammar | None) -> int:
        """Return the initial state of a grammar. Raises GeneratorError."""
        if grammar is None:
            return FREE
        if grammar not in self._first:
            self._add(grammar)
        return self._first[grammar]

    def masked(self, logits_R_V: torch.Tensor, states_R: Indices) -> torch.Tensor:
        """Return the logits, with minus infinity for tokens that the rows' states do not allow."""
        if not states_R.any():
            return logits_R_V
        return logits_R_V.masked_fill(~self.allowed(states_R), float("-inf"))

    def allowed(self, states_R: Indices) -> torch.Tensor:
        """Return a boolean R x V mask of the tokens that the rows' states allow."""
        return self._allowed_S_V[torch.from_numpy(states_R)]

    def path(self, grammar: Grammar | None, tokens_R: Indices) -> Indices:
        """Return the states in which the tokens of one answer were chosen."""
        states_R = np.empty_like(tokens_R)
        state = self.enter(grammar)
        for number, token in enumerate(tokens_R):
            states_R[number] = state
            state = self._following_S_V[state, token]
        return states_R

    def following(self, states_R: Indices, tokens_R: Indices) -> npt.NDArray[Any]:
        """Return the next states after the tokens."""
        return self._following_S_V[states_R, tokens_R]

    def _add(self, grammar: Grammar) -> None:
        first, size = len(self._following_S_V), len(grammar.states)
        self._check(grammar, first + size)
        allowed_S_V = torch.zeros((size, self._vocabulary), dtype=torch.bool)
        following_S_V = np.full((size, self._vocabulary), FREE, dtype=np.int32)
        for number, edges in enumerate(grammar.states):
            for token, following in edges:
                allowed_S_V[number, token] = True
                following_S_V[number, token] = FREE if following == END else first + following
        self._allowed_S_V = torch.cat([self._allowed_S_V, allowed_S_V])
        self._following_S_V = np.concatenate([self._following_S_V, following_S_V])
        self._first[grammar] = first

    def _check(self, grammar: Grammar, states: int) -> None:
        highest = max(token for edges in grammar.states for token, _ in edges)
        if highest >= self._vocabulary:
            raise GeneratorError(
                f"a grammar needs tokens below {self._vocabulary}, the model's vocabulary, found "
                f"{highest}; it belongs to another model"
            )
        if states * self._vocabulary > MAX_ENTRIES:
            raise GeneratorError(
                f"the grammars of an engine may have {MAX_ENTRIES // self._vocabulary} states "
                f"together, got {states}; use fewer or smaller grammars"
            )
