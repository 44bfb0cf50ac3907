"""Why candidates were refused as contaminated, by rule."""

import re
from collections import Counter

from coevolve.history.run_history import RunHistory
from protocols.evolution import CandidateVerdict, Refused

CONTAMINATED = "contaminated"

_SIMILARITY = re.compile(r"similarity [\d.]+ (?=to )")


def refused(data: RunHistory) -> list[tuple[CandidateVerdict, Refused]]:
    """Return the newest verdict of each refused candidate in the journal, the oldest first."""
    newest = (verdicts[-1] for verdicts in data.evolution.verdicts.values())
    return [(each, each.outcome) for each in newest if isinstance(each.outcome, Refused)]


def contamination_rules(data: RunHistory) -> Counter[str]:
    """Return how many candidates each rule for contamination refused, of those in the journal.

    A rule is what the gate found, without the degree of a similarity, and without the details that
    come before a colon.
    """
    limit = f"similarity of {data.config.validator.similarity:.2f} or more "
    return Counter(
        _SIMILARITY.sub(limit, outcome.found).rpartition(": ")[2]
        for _, outcome in refused(data)
        if outcome.gate == CONTAMINATED
    )
