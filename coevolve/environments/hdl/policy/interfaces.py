"""What stands between steps on designs and the policy's tokens."""

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
        """Return what the policy's words are kept within; None where it writes freely."""
        ...

    def prompt(
        self, task: CoverageTask, design: Design, points: Sequence[Point]
    ) -> tuple[int, ...]:
        """Return the tokens of everything up to the policy's first word.

        ``points`` are the design's, as `TestbenchSimulator.points` returns them.
        """
        ...

    def read(self, task: CoverageTask, token_ids: Sequence[int]) -> Submission:
        """Return what the policy hands in. Raises ValueError where its words come to nothing."""
        ...
