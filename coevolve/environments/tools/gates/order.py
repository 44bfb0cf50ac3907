"""The order of the gates that a candidate with tools passes on its own."""

from protocols.evolution import Gate

ORDER: tuple[Gate, ...] = (
    "malformed",
    "unclean",
    "unknown_tool",
    "contaminated",
    "replay_failed",
    "not_deterministic",
    "no_effect",
    "passes_without_acting",
    "passes_truncated",
    "passes_reordered",
    "passes_wrong_argument",
    "true_already",
    "superfluous",
    "nothing_missing",
    "description_omits",
    "description_invents",
    "description_answers",
    "means_otherwise",
)
"""The gates in the order in which they are checked."""
