"""What the faults that are planted in code need to know of tasks (`tests.spoiling.kinds`)."""

import ast
import json
import random
from collections.abc import Mapping, Sequence

from coevolve.environments.appworld.gates.literals import ANSWER
from coevolve.environments.appworld.own import template_of
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask
from tests.coevolve.environments.appworld.planted import Seen, code_kinds
from tests.spoiling.kinds import Kind

_MARK = "\x1e"
_SHOWING = f"""
def shown(source, value):
    print({_MARK!r} + json.dumps([source, value], default=str))
    return value
"""


def chosen_ids(ids: Sequence[str], most: int, seed: int) -> tuple[str, ...]:
    """Return ``most`` ids of each template, all if it is 0, by a seed."""
    by_template: dict[str, list[str]] = {}
    for each in ids:
        by_template.setdefault(template_of(each), []).append(each)
    for template, held in by_template.items():
        random.Random(f"{seed}/{template}").shuffle(held)
    return tuple(each for held in by_template.values() for each in held[: most or len(held)])


async def kinds_of_code(simulator: Simulator, tasks: Sequence[ToolTask]) -> Mapping[str, Kind]:
    """Return the kinds of faults that are planted in ``tasks``. Raises SimulatorError."""
    seen = {
        task: await _seen(simulator, f"seen/{number}", task) for number, task in enumerate(tasks)
    }
    return code_kinds(tasks, seen)


async def _seen(simulator: Simulator, name: str, task: ToolTask) -> Seen:
    """Return the answer of a reference, and the first value of each of its ids."""
    (blocks,) = task.references
    marked = (_SHOWING, *(ast.unparse(_Showing().visit(ast.parse(block))) for block in blocks))
    tried = await simulator.trial(name, task, (marked,))
    lines = "\n".join(each.result for each in tried.turns[0].observed).splitlines()
    found: dict[str, object] = {}
    for line in lines:
        if line.startswith(_MARK):
            source, value = json.loads(line.removeprefix(_MARK))
            found.setdefault(source, value)
    return found


class _Showing(ast.NodeTransformer):
    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        self.generic_visit(node)
        name = str(node.arg)
        if (name == ANSWER or name.endswith("_id")) and not isinstance(node.value, ast.Constant):
            source = ANSWER if name == ANSWER else ast.unparse(node.value)
            arguments = [ast.Constant(source), node.value]
            node.value = ast.Call(ast.Name("shown", ast.Load()), arguments, [])
        return node
