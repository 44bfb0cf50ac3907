"""How gates that execute a candidate carry out their checks, and let a reader read it."""

from collections.abc import Awaitable, Callable

import msgspec

from coevolve.environments.tools.gates.instructions import InstructionReader
from coevolve.environments.tools.gates.refusal import RefusedError
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask, read_body
from coevolve.validation.gates import Findings, Sound
from protocols.evolution import Candidate, Refused

Check = Callable[[ToolTask, Trials], Awaitable[Sound]]
"""Returns the sound task. Raises RefusedError, and SimulatorError."""


class ExecutedGates:
    """`coevolve.validation.gates.Gates` of one check and perhaps a reader."""

    def __init__(
        self, simulator: Simulator, check: Check, reader: InstructionReader | None
    ) -> None:
        """Without a ``reader``, nobody checks what the instructions mean."""
        self._simulator = simulator
        self._check = check
        self._reader = reader

    async def examine(self, candidate: Candidate) -> Findings:
        """Check gate after gate until one refuses the candidate.

        Raises:
            SimulatorError: A simulator failed in every attempt, so nothing is known of the
            candidate.
        """
        try:
            body = read_body(candidate.body)
        except msgspec.MsgspecError as error:
            return Findings(
                outcome=RefusedError("malformed", str(error)).refused, simulator_calls=0
            )
        trials = Trials(self._simulator, candidate.candidate_id, body)
        try:
            outcome = await self._check(body, trials)
        except RefusedError as refusal:
            outcome = refusal.refused
        return Findings(outcome=outcome, simulator_calls=trials.calls)

    async def read(self, candidate: Candidate, findings: Findings) -> Findings:
        """Let the reader, if there is one, read a sound candidate; it can refuse it.

        Raises:
            SimulatorError: As `examine` does.
            EndpointError: The reader gives no answer now.
        """
        outcome = findings.outcome
        if self._reader is None or isinstance(outcome, Refused):
            return findings
        body = read_body(outcome.body)
        trials = Trials(self._simulator, f"{candidate.candidate_id}/read", body)
        reading = await self._reader.read(candidate, body, trials)
        if reading.outcome == "refuted":
            outcome = RefusedError("means_otherwise", reading.found).refused
        return Findings(
            outcome=outcome,
            simulator_calls=findings.simulator_calls + trials.calls,
            reading=reading,
        )
