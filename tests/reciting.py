"""A policy that repeats a demonstration."""

from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights


class RecitingGenerator:
    """Continues a prompt with the tokens of a demonstration."""

    def __init__(self, token_ids: tuple[int, ...], mask: tuple[int, ...]) -> None:
        self._token_ids = token_ids
        self._mask = mask

    async def generate(self, request: GenerationRequest) -> Generation:
        begin = len(request.prompt_ids)
        assert request.prompt_ids == self._token_ids[:begin]
        end = begin
        while end < len(self._mask) and self._mask[end]:
            end += 1
            if self._token_ids[end - 1] in request.stop_ids:
                break
        said = self._token_ids[begin:end]
        return Generation(
            token_ids=said, logprobs=(0.0,) * len(said), versions=(0,) * len(said), stopped=True
        )

    async def release(self, conversation_id: str) -> None: ...

    async def load(self, version: PolicyVersion) -> ServedWeights: ...

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None: ...
