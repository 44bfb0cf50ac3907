"""What a testbench earns besides coverage: the settings, and the result of a trial on mutants."""

from typing import Annotated, Literal

import msgspec

from protocols.numbers import Share

MOST_MUTANTS = 64
HEAD_START = 0.1
"""Mutants that count as noticed besides the noticed ones, so that coverage earns something before
the first check notices one."""


class MutantTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a testbench is tried on mutants of its design."""

    counts: Literal["noticed", "shown"] = "noticed"
    """``noticed``: a mutant counts if the verdict on it is ``failed``, so a testbench without a
    check has none, at no cost. ``shown``: it also counts if the outputs differ from the
    design's. Stimulus programs have no checks and need ``shown``."""

    most: Annotated[int, msgspec.Meta(ge=1, le=MOST_MUTANTS)] = 20
    """Maximum mutants of a design, spread over its modules."""

    above: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    """Overall average above which a testbench is tried; others have the score 0, at no cost."""


class RewardConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a testbench earns that runs and does not fail.

    The reward is 1 + (1 - p) * coverage ** (1 - m) * mutation score ** m + p * share of the plan,
    with the mutation score (noticed + 0.1) / (counted + 0.1). So coverage earns little where no
    check notices a bug, and checks earn little where little is covered.
    """

    mutants: Share = 0.0
    """m: weight of the mutation score, the share of the design's mutants that are noticed, beside
    coverage. At 0.5 a testbench without a check earns less than any that notices one of twenty
    mutants and covers a tenth as much."""

    plan: Share = 0.0
    """p: weight of the covered share of the design's plan. A design without a plan has p = 0."""

    trial: MutantTrial = MutantTrial()
    """How testbenches are tried on mutants, for a weight above 0."""

    def earned(self, coverage: float, noticed: "Noticed | None") -> float:
        """Return what coverage and mutants earn together, 0..1; None where no mutant was tried."""
        if noticed is None:
            noticed = Noticed(found=0, counted=self.trial.most)
        if not noticed.counted:
            return coverage
        share = (noticed.found + HEAD_START) / (noticed.counted + HEAD_START)
        return coverage ** (1 - self.mutants) * share**self.mutants

    @property
    def tries(self) -> MutantTrial | None:
        """The trial; None if it would earn nothing."""
        return self.trial if self.mutants else None


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial."""

    found: Annotated[int, msgspec.Meta(ge=0)]
    """Mutants that were noticed, or shown, as the trial counts."""

    counted: Annotated[int, msgspec.Meta(ge=0)]
    """Mutants that compile and are not equivalent."""

    @property
    def score(self) -> float:
        """The mutation score, 0..1; 0 without mutants."""
        return self.found / self.counted if self.counted else 0.0
