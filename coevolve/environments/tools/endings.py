"""Early ends of a session: a session over a limit fails, and no other session is affected."""

import msgspec

from coevolve.environments.tools.commands import Failed, Observed, Reply

COMMAND_CPU_S = 0.25
"""Maximum CPU seconds of one call, or of one comparison with the reference. The most expensive work
that `tools.weight` and `tools.session` allow takes a fifth of it."""

HOST_REACHED = "the simulator reached for the host"
"""The beginning of the reason why a session ended that tried to open a file, socket or process."""

HOST_REMEDY = "import modules and read files at the top of the module, outside the class"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The replies of a session that has ended."""

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
    """Return how the session that gave ``reply`` ended; None if it is still open."""
    for ending in (OUT_OF_TIME, OUT_OF_MEMORY):
        if reply in (ending.answer, ending.verdict):
            return ending
    return None
