"""Which candidates are parked: those whose newest verdict says so.

A candidate that is probed again counts as parked until its next verdict. Everything that shows a
number of parked candidates counts them with `note_parked`.
"""

from protocols.evolution import CandidateVerdict, Parked


def note_parked(parked: set[str], verdict: CandidateVerdict) -> int:
    """Add a verdict to the ids of ``parked`` candidates; return the change of their number."""
    before = len(parked)
    if isinstance(verdict.outcome, Parked):
        parked.add(verdict.candidate_id)
    else:
        parked.discard(verdict.candidate_id)
    return len(parked) - before
