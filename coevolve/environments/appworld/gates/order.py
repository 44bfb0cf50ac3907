"""The order of the gates that a candidate whose reference is code passes on its own."""

from protocols.evolution import Gate

ORDER: tuple[Gate, ...] = (
    "malformed",
    "unclean",
    "unknown_tool",
    "reads_hidden",
    "answer_given",
    "unanswered",
    "description_invents",
    "replay_failed",
    "not_deterministic",
    "no_effect",
    "superfluous",
    "passes_mutants",
    "description_omits",
    "description_answers",
    "means_otherwise",
)
"""The gates in the order in which they are checked."""
