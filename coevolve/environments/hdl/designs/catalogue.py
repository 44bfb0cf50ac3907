"""The designs of a run by id: those of its folder, and their instances."""

from collections.abc import Iterable

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.renaming import instance, root_of
from protocols.errors import JournalError


class Catalogue:
    """Designs by id; makes each instance once."""

    def __init__(self, given: Iterable[Design]) -> None:
        self.known = {design.design_id: design for design in given}
        """The given designs, and their instances so far."""

    def get(self, design_id: str) -> Design:
        """Return the design. Raises JournalError where no design has this id."""
        if design_id not in self.known:
            self.known[design_id] = self._instance(design_id)
        return self.known[design_id]

    def _instance(self, design_id: str) -> Design:
        of = root_of(design_id)
        if of is None:
            raise JournalError(
                f"a task is about the design {design_id!r}, but the run's folder of designs does "
                "not have it; restore the folder that the run began with"
            )
        root, seed = of
        return instance(self.get(root), seed)
