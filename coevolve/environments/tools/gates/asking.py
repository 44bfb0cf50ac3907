"""Gate of turns in which the right thing is to make no call: to ask, or to say what is missing.

Such a turn needs a fact behind it, which the next turn shows. Either its calls use a tool that does
not exist yet. Or its instruction supplies something: an argument, a quotation or a number that the
turn itself does not say, a name with which a reading call shows an argument, or a choice (*the last
file*).

That acting in such a turn fails is the verifier's business (`mutants.hasty`).
"""

from coevolve.environments.tools.commands import Tried
from coevolve.environments.tools.gates.discovery import Discovery
from coevolve.environments.tools.gates.forms import digits, says, shows
from coevolve.environments.tools.gates.knowledge import answers_of, known_before, singles_out
from coevolve.environments.tools.gates.reading import Read
from coevolve.environments.tools.gates.wording import quotations, values_of
from coevolve.environments.tools.task import ToolTask


async def unasked(body: ToolTask, read: Read, played: Tried, discovery: Discovery) -> str:
    """Return the first turn without calls in which nothing is missing; empty if there is none."""
    withheld = set(body.withheld)
    for number, turn in enumerate(body.turns):
        withheld -= set(turn.revealed)
        if turn.reference:
            continue
        following = read[number + 1] if number + 1 < len(read) else ()
        if not following:
            return f"turn {number + 1} has no calls, and no next turn shows what it lacks"
        if any(call.tool in withheld for call in following):
            continue
        if not await _lacks_a_value(body, read, played, discovery, number):
            return f"turn {number + 1} has no calls, although it lacks nothing"
    return ""


async def _lacks_a_value(
    body: ToolTask,
    read: Read,
    played: Tried,
    discovery: Discovery,
    number: int,
) -> bool:
    """Return whether the next turn's calls take a value that turn ``number`` lacks."""
    now, following = body.turns[number].instruction, body.turns[number + 1].instruction
    if not following.strip():
        return False
    wanted = [value for value in values_of(read[number + 1]) if _is_choice(value)]
    lacking = [value for value in wanted if not says(now, value)]
    if any(says(following, value) for value in lacking) or _is_more_exact(following, now):
        return True
    if any(singles_out(following, value) for value in lacking):
        return True
    answers = answers_of(played)
    later = await discovery.shown(known_before((number + 1, 0), body, read, answers))
    named = [
        answer.text
        for answer in later
        if any(says(following, taken) and not says(now, taken) for taken in answer.takes)
    ]
    return any(shows(text, value) for text in named for value in lacking)


def _is_choice(value: object) -> bool:
    return not isinstance(value, bool) and len(str(value)) > 1


def _is_more_exact(following: str, now: str) -> bool:
    """Return whether an instruction has a quotation or number that the one before it lacks."""
    quoted = any(not says(now, text) for text in quotations(following))
    return quoted or bool(digits(following) - digits(now))
