"""How a session ends before its conversation does: whoever asks too much fails, and nobody else."""

import msgspec

from protocols.simulation import Failed, Observed, Reply

COMMAND_CPU_S = 0.25
"""CPU seconds for one call, or for one comparison with the reference. What the sizes of
`coevolve.bfcl.weight` and `coevolve.bfcl.session` allow takes a fifth of it."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What an ended session says from then on."""

    answer: Observed
    verdict: Failed


OUT_OF_TIME = Ending(
    answer=Observed(
        result=f"Error during execution: more than {COMMAND_CPU_S} CPU seconds", failed=True
    ),
    verdict=Failed(reason="out_of_time"),
)

OUT_OF_MEMORY = Ending(
    answer=Observed(result="Error during execution: out of memory", failed=True),
    verdict=Failed(reason="out_of_memory"),
)


def ending_of(reply: Reply) -> Ending | None:
    """Return how the session has ended that says this; None where it goes on."""
    for ending in (OUT_OF_TIME, OUT_OF_MEMORY):
        if reply in (ending.answer, ending.verdict):
            return ending
    return None
