"""The tiny policy as a synthesizer: it writes the instruction for an explored trajectory.

    <s>call<e><o>answer call<e><o>answer<n>instruction<d>

Answers are shortened as for the policy itself. The prompt contains them because a call alone does
not say what it did: ``mv`` renames or moves, depending on what exists.
"""

import re
from collections.abc import Sequence

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.simulated import CLASS
from coevolve.environments.tools.filesystem.tokenizer import CALL, DONE, END, EXPLORED, INSTRUCTION
from coevolve.environments.tools.toolsets import tool_documents

STOP_IDS = (DONE,)
MAX_TOKENS = 40
"""Maximum tokens of an instruction."""


def trajectory(
    renderer: TinyRenderer, calls: Sequence[str], results: Sequence[str]
) -> tuple[int, ...]:
    """Return the prompt for the instruction behind ``calls``."""
    ids = [EXPLORED]
    for call, result in zip(calls, results, strict=True):
        observed = renderer.observation((result,))
        assert observed[-1] == CALL
        ids += (*renderer.encode(call), END, *observed[:-1])
    return (*ids, INSTRUCTION)


def written(renderer: TinyRenderer, token_ids: Sequence[int]) -> str:
    """Return the instruction that the policy wrote."""
    return renderer.decode([token for token in token_ids if token != DONE])


def mentions_its_slots(instruction: str, calls: Sequence[str], results: Sequence[str]) -> bool:
    """Return whether the instruction and the trajectory name the same things.

    Every quoted text and every number must be an argument; every argument must be in the
    instruction, unless an earlier answer shows it. Of the grammar, this check knows only that names
    are quoted. Arguments of a single character and paths of dots (modes, ``..``) may be missing.
    """
    if instruction.count("'") % 2:
        return False
    quoted = set(re.findall(r"'([^']*)'", instruction))
    numbers = set(re.findall(r"\d+", re.sub(r"'[^']*'", " ", instruction)))
    tools = {document.name for document in tool_documents(CLASS)}
    names: set[str] = set()
    digits: set[str] = set()
    shown = ""
    for call, result in zip(calls, results, strict=True):
        parsed = parse_call(call, tools)
        for value in (*parsed.positional, *parsed.named.values()):
            if isinstance(value, int):
                digits.add(str(value))
            elif len(str(value)) > 1 and str(value).strip("."):
                names.add(str(value))
                if str(value) not in quoted and str(value) not in shown:
                    return False
        shown += result
    return quoted <= names and numbers == digits
