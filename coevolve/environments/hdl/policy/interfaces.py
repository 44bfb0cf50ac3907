"""The interface between steps on designs and the policy's tokens."""

from collections.abc import Sequence
from typing import Protocol

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.simulate.messages import Point, Submission
from protocols.generation import Grammar


class StepRenderer(Protocol):
    """Turns a step on a design into tokens, and sampled tokens into a submission."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a generation."""
        ...

    def grammar(self, task: CoverageTask) -> Grammar | None:
        """Return the grammar that limits the policy's tokens; None if there is none."""
        ...

    def prompt(
        self, task: CoverageTask, design: Design, points: Sequence[Point]
    ) -> tuple[int, ...]:
        """Return the tokens of the prompt, up to the policy's first token.

        ``points`` are the design's, as `TestbenchSimulator.points` returns them.
        """
        ...

    def read(self, task: CoverageTask, token_ids: Sequence[int]) -> Submission:
        """Return the policy's submission. Raises ValueError if its tokens contain none."""
        ...
