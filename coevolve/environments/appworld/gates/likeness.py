"""What is compared of tasks whose references are code (`tools.gates.similarity`).

Two requests are the same if their instructions share nearly all words; two works are, if their
statements do and they begin in the same world. Held-out tasks of the benchmark have no reference
here, so the instruction alone has to tell them.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from coevolve.environments.tools.gates.similarity import Likeness
from coevolve.environments.tools.task import ToolTask

_WORD = re.compile(r"\w+(?:[.\-]\w+)*")


def code_likeness(body: ToolTask) -> Likeness:
    """Return the features of a task. Its blocks must be Python code."""
    said = frozenset(
        f"said {word}" for turn in body.turns for word in _WORD.findall(turn.instruction.lower())
    )
    statements = Counter(
        statement for turn in body.turns for block in turn.reference for statement in _said(block)
    )
    return Likeness(
        request=said,
        calls=frozenset(
            f"{number} {statement}"
            for statement, count in statements.items()
            for number in range(count)
        ),
        world=frozenset((f"world {body.world}",)),
        names=True,
        turns=(said,),
    )


def _said(block: str) -> Iterator[str]:
    yield from map(ast.unparse, ast.parse(block).body)
