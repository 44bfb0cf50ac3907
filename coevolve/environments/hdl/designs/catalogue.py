"""The designs of a run by id: those of its folder, and the variants that it made itself."""

from collections.abc import Iterable

from coevolve.journal.codec import DESIGNS_BY_ID, decode_as
from protocols.design_evolution import DesignMade
from protocols.designs import Design
from protocols.errors import JournalError
from protocols.interfaces import Reader


class Catalogue:
    """Designs, each read once."""

    def __init__(self, given: Iterable[Design], reader: Reader) -> None:
        """Start with the ``given`` ones; ``reader`` finds the others in the journal."""
        self.given = {design.design_id: design for design in given}
        self.known = dict(self.given)
        """Those that were asked for, and the given ones."""

        self._reader = reader

    async def get(self, design_id: str) -> Design:
        """Return the design. Raises JournalError where there is none of this id."""
        if design_id not in self.known:
            found = await self._reader.find(DESIGNS_BY_ID, design_id, limit=1)
            if not found:
                raise JournalError(
                    f"neither the run's folder of designs nor its journal holds {design_id!r}, "
                    "although a task is about it; give back the folder that the run began with"
                )
            self.known[design_id] = decode_as(found[0], DesignMade).design
        return self.known[design_id]
