"""Questions and a grader: all that it takes to train on answers."""

from typing import Any


class Letters:
    """Questions about the alphabet."""

    def reward(self, task: dict[str, Any], answer: str) -> float:
        """Return 1 for the right letter alone, and half of it for an answer that holds it."""
        said = answer.strip(" .'").lower()
        return 1.0 if said == task["letter"] else 0.5 * (task["letter"] in said)
