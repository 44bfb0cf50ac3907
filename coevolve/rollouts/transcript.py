"""The tokens of a growing attempt.

Tokens in, tokens out: the next request extends the sampled tokens, and the learner trains on them;
text is only decoded from them. The environment's tokens are masked.
"""

from collections.abc import Iterable

from protocols import columns
from protocols.errors import ContractError
from protocols.generation import Generation
from protocols.rollouts import Tokens


class Transcript:
    """The columns of a growing conversation."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._cache_versions: list[int] = []

    def feed(self, token_ids: Iterable[int]) -> None:
        """Add tokens of the environment."""
        ids = tuple(token_ids)
        self.token_ids.extend(ids)
        self._mask.extend([0] * len(ids))
        self._logprobs.extend([0.0] * len(ids))
        self._versions.extend([-1] * len(ids))
        self._cache_versions.extend([-1] * len(ids))

    def add(self, generation: Generation) -> None:
        """Add sampled tokens of the policy."""
        self.token_ids.extend(generation.token_ids)
        self._mask.extend([1] * len(generation.token_ids))
        self._logprobs.extend(generation.logprobs)
        self._versions.extend(generation.versions)
        self._cache_versions.extend(generation.cache_versions or generation.versions)

    def tokens(self) -> Tokens:
        """Return the columns."""
        return Tokens(
            token_ids=columns.int32(self.token_ids),
            mask=columns.uint8(self._mask),
            logprobs=columns.float32(self._logprobs),
            versions=columns.int32(self._versions),
            cache_versions=columns.int32(self._cache_versions)
            if self._cache_versions != self._versions
            else b"",
        )

    def sampled_versions(self) -> list[int]:
        """Return the policy version of each sampled token, in order."""
        return [version for version in self._versions if version >= 0]

    def oldest_version(self) -> int:
        """Return the oldest version that sampled a token or computed keys and values for one.

        Raises ContractError if nothing was sampled.
        """
        versions = [version for version in self._cache_versions if version >= 0]
        if not versions:
            raise ContractError(
                "an attempt needs at least one sampled token, found none; raise SimulatorError "
                "if the policy has no room to answer (coevolve.rollouts.agent.room_left)"
            )
        return min(versions)
