"""What is compared of tasks whose references are code (`tools.gates.similarity`).

Two requests are the same if their instructions share nearly all words; two works are, if their
statements do and they begin in the same world. Held-out tasks of the benchmark have no reference
here, so the instruction alone has to tell them.
"""

import ast

from coevolve.environments.tools.gates.asked import numbered
from coevolve.environments.tools.gates.similarity import Likeness, said_in
from coevolve.environments.tools.task import ToolTask


def code_likeness(body: ToolTask) -> Likeness:
    """Return the features of a task. Its blocks must be Python code."""
    said = said_in("\n".join(turn.instruction for turn in body.turns))
    statements = (
        ast.unparse(each)
        for turn in body.turns
        for block in turn.reference
        for each in ast.parse(block).body
    )
    return Likeness(
        request=said,
        calls=frozenset(numbered(statements)),
        world=frozenset((f"world {body.world}",)),
        names=True,
        turns=(said,),
    )
