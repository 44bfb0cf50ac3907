"""Names in tasks whose references are code, for `tools.instances`: the same work, other names.

A name is a text of the code that the instruction says: the title of a note to write, the name of a
playlist to look for. Its parameter is the API's, or the key of the record that it is compared with.
"""

import ast
from collections.abc import Iterator, Mapping

import msgspec

from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.vocabulary import LEAST_CHARS, mentions, pattern_of


def names_in_code(body: ToolTask) -> dict[str, str]:
    """Return the texts that both the instruction and the code have, with their parameters."""
    said = "\n".join(turn.instruction for turn in body.turns)
    found: dict[str, str] = {}
    for block in (block for turn in body.turns for block in turn.reference):
        for text, parameter in _texts(ast.parse(block)):
            if len(text) >= LEAST_CHARS and any(map(str.isalpha, text)) and mentions(said, text):
                found[text] = found.get(text) or parameter
    return found


def with_names(body: ToolTask, names: Mapping[str, str]) -> ToolTask:
    """Return the task with other names in its instruction and its code, in the same world."""
    pattern = pattern_of(names)
    put = _Put(names)
    return msgspec.structs.replace(
        body,
        turns=tuple(
            msgspec.structs.replace(
                turn,
                instruction=pattern.sub(lambda found: names[found[0]], turn.instruction),
                reference=tuple(ast.unparse(put.visit(ast.parse(b))) for b in turn.reference),
                results=(),
            )
            for turn in body.turns
        ),
    )


class _Put(ast.NodeTransformer):
    """Replaces whole texts."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and node.value in self._names:
            return ast.Constant(self._names[node.value])
        return node


def _texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the texts of a block with their parameters, those without one last."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str(parameter), value=ast.Constant(value=str(text))):
                yield text, parameter
            case ast.Compare(left=left, comparators=[right]):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        yield one.value, _key(other)
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, ""


def _key(node: ast.expr) -> str:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case _:
            return ""
