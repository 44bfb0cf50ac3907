"""The designs of a run by id: those of its folder, variants that the run made, and instances."""

from collections.abc import Iterable

import msgspec

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.renaming import instance, root_of
from coevolve.environments.hdl.evolution.messages import DESIGN, DESIGN_POINTS
from coevolve.journal.codec import RECORDS_BY_KEY, decode_as, record_key
from protocols.errors import JournalError
from protocols.evolution import EnvironmentRecord
from protocols.interfaces import Reader

_decoder = msgspec.msgpack.Decoder(Design)


class Catalogue:
    """Designs by id; reads each one once."""

    def __init__(self, given: Iterable[Design], reader: Reader) -> None:
        """Start with the ``given`` designs; ``reader`` finds the variants in the journal."""
        self.given = {design.design_id: design for design in given}
        self.known = dict(self.given)
        """The given designs, and the variants and instances so far."""

        self._reader = reader

    async def get(self, design_id: str) -> Design:
        """Return the design. Raises JournalError where no design has this id."""
        if design_id in self.known:
            return self.known[design_id]
        if of := root_of(design_id):
            root, seed = of
            made = instance(await self.get(root), seed)
        else:
            made = await self._variant(design_id)
        self.known[design_id] = made
        return made

    async def has_points(self, design_id: str) -> bool:
        """Return whether the journal has the points of the design."""
        key = record_key(DESIGN_POINTS, design_id)
        return bool(await self._reader.find(RECORDS_BY_KEY, key, limit=1))

    async def _variant(self, design_id: str) -> Design:
        found = await self._reader.find(RECORDS_BY_KEY, record_key(DESIGN, design_id), limit=1)
        if not found:
            raise JournalError(
                f"a task is about the design {design_id!r}, but neither the run's folder of "
                "designs nor its journal has it; restore the folder that the run began with"
            )
        return _decoder.decode(decode_as(found[0], EnvironmentRecord).body)
