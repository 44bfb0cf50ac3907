"""Usage of a model."""

from dataclasses import dataclass


@dataclass
class ModelUsage:
    """Number of calls of a model, with their tokens and cost."""

    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and answer tokens together."""
        return self.prompt_tokens + self.answer_tokens

    def add(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.answer_tokens += answer_tokens
        self.cost_usd += cost_usd
