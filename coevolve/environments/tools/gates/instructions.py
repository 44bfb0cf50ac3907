"""What reads a candidate's instructions, for the gate of meaning."""

from typing import Protocol

from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate, Reading


class InstructionReader(Protocol):
    """Says whether instructions ask for a reference."""

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return what it finds on ``body``, which passed all executed checks.

        ``trials`` executes other calls against the body's verifier. Raises SimulatorError, and
        EndpointError if no answer comes now.
        """
        ...
