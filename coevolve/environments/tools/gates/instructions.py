"""What reads a candidate's instructions, for the gate of meaning."""

from collections.abc import Callable
from typing import Protocol

from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.task import ToolTask
from coevolve.journal.codec import decode_as, topic_of
from protocols.evolution import Candidate, Reading, SynthesizerSwapped
from protocols.interfaces import Reader
from protocols.synthesizers import SynthesizerModel


class InstructionReader(Protocol):
    """Says whether instructions ask for a reference."""

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return what it finds on ``body``, which passed all executed checks.

        ``trials`` executes other calls against the body's verifier. Raises SimulatorError, and
        EndpointError if no answer comes now.
        """
        ...


class SwappedReader:
    """Reads with the synthesizer's model: after a swap with the new one."""

    def __init__(
        self,
        configured: SynthesizerModel,
        open_reader: Callable[[SynthesizerModel], InstructionReader],
        journal: Reader,
    ) -> None:
        """``configured`` is the model until the first swap."""
        self._open = open_reader
        self._journal = journal
        self._swap = 0
        self._current = open_reader(configured)

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return what the present model finds; raises what its reader raises."""
        newest = await self._journal.last(topic_of(SynthesizerSwapped))
        if newest is not None and newest.sequence > self._swap:
            self._swap = newest.sequence
            self._current = self._open(decode_as(newest, SynthesizerSwapped).model)
        return await self._current.read(candidate, body, trials)
