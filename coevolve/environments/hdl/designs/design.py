"""The content of a folder in ``designs/``: its files, and the folder as a whole.

| file                      | content                                                     |
|---------------------------|-------------------------------------------------------------|
| ``design.yaml``           | `DesignFile`                                                |
| ``*.sv``                  | RTL, as ``design.yaml`` names it                            |
| ``spec.md``               | the specification that an agent gets with the RTL           |
| ``testbenches/poor.sv``   | low coverage: at most `POOR_AT_MOST`                        |
| ``testbenches/mid.sv``    | coverage between poor and good                              |
| ``testbenches/good.sv``   | high coverage: at least `GOOD_AT_LEAST`                     |
| ``mutants.yaml``          | `Mutant`s: bugs that a good testbench shows                 |
| ``plan.sv`` (may be left out) | covergroups bound to the design (`hdl.coverage.plan`)   |
"""

from typing import Annotated, Literal

import msgspec

from coevolve.environments.hdl.simulate.messages import Name, Port, Reset, SourceFile, Unit
from protocols.tasks import Split

GOOD_AT_LEAST = 0.90
POOR_AT_MOST = 0.65
"""Limits of the reference testbenches' overall average, which admission checks."""

Quality = Literal["poor", "mid", "good"]
QUALITIES: tuple[Quality, ...] = ("poor", "mid", "good")


class PointsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The frozen set of coverage points; every testbench is scored over it."""

    count: Annotated[int, msgspec.Meta(ge=1)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class DesignFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``design.yaml``."""

    top: Name
    """Module under verification."""

    adopted: bool = False
    """Written by ``coevolve hdl adopt``: the folder needs no specification, reference testbenches
    or mutants, since the design is measured but no prompt shows it."""

    family: Name = "adopted"
    """Name of the family; all designs of one family are in one split."""

    split: Split = "train"
    files: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """RTL, in the order of compilation."""

    data: tuple[str, ...] = ()
    """Files of the folder that the RTL reads by ``$readmemh`` or ``$readmemb``, by these names."""

    clock: str = ""
    """Input that a stimulus program toggles each cycle; empty for a combinational design."""

    reset: Reset | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = GOOD_AT_LEAST
    """Overall average from which a testbench counts as a pass."""

    secret: str = ""
    """One sentence on the secret: a value that only the specification states and that random
    stimulus does not find. Empty for a design without a secret."""

    literals: tuple[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)], ...] = ()
    """Constants of the specification that a stimulus may want to drive."""

    points: PointsFile | None = None
    """Written by ``coevolve hdl qualify --freeze``."""

    unreachable: tuple[str, ...] = ()
    """Points that no testbench can cover, as ``metric file:line:column instance name``. They do not
    count. A comment beside each states the reason."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bug: a text that occurs exactly once in the RTL, and its replacement."""

    name: Name
    file: str
    find: Annotated[str, msgspec.Meta(min_length=1)]
    replace: str
    bug: str
    """The bug in a few words."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of ``designs/``, read and checked."""

    design_id: str
    """Name of the folder."""

    file: DesignFile
    unit: Unit
    ports: tuple[Port, ...]
    """Ports of the module under verification, in the order of its header."""

    specification: str
    testbenches: dict[Quality, str]
    mutants: tuple[Mutant, ...]
    plan: tuple[SourceFile, ...] = ()
    """The plan of the folder; it counts where ``unit`` has it, see `planned`."""

    @property
    def planned(self) -> "Design":
        """The design whose plan counts."""
        unit = msgspec.structs.replace(self.unit, plan=self.plan)
        return msgspec.structs.replace(self, unit=unit)
