"""Parses YAML that somebody else wrote, and describes what is wrong with it in one sentence.

The files are a part of YAML 1.2: sections, lists, texts, numbers, dates, truth values and null.
A name of a setting is one word or number, and stands once in its section. Anchors and aliases may
be used; tags may not. `1e-3` is a number; `off`, `010` and `1:30` are texts.

The parser returns for any text, with values or a `NotYamlError`: the number of characters, the
depth, and the size with all aliases written out are limited.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import yaml
from yaml.composer import ComposerError

from coevolve.base.foreign import boundary, plain, shown

MOST_CHARS = 65_536
"""Maximum characters of a text; the parser reads some hundred thousand a second."""

MAX_NODES = 20_000
"""Maximum values and names of a text..."""

MAX_EXPANDED = 262_144
"""... and maximum characters in them, both with every alias written out."""

MOST_DEPTH = 24
"""Maximum sections and lists within one another."""

MOST_DIGITS = 40
"""Maximum characters of a number."""

SAID_CHARS = 300
"""Maximum characters of the parser's own message."""

BOOL = "tag:yaml.org,2002:bool"
INT = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"
VALUE = "tag:yaml.org,2002:value"

_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which escapes such as `"\\0"` can write, and halves of characters."""


class NotYamlError(ValueError):
    """The text cannot be read; the message names the place, the fault and the remedy."""


class _Loader(yaml.SafeLoader):
    """A safe loader for the part of YAML that this module describes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next value. Raises ComposerError if it has a tag or is nested too deep."""
        event = cast("Any", self).peek_event()
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _refused(f"found the tag {shown(tag)}", event.start_mark)
        if self._depth == MOST_DEPTH:
            raise _refused(f"found more than {MOST_DEPTH} nested levels", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Return the whole text. Raises ComposerError if aliases make it too large or endless."""
        node = super().get_single_node()
        if node is not None:
            _Sizes().check(node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the section. Raises ComposerError if a name occurs twice, or is no word."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("found a list or section as the name of a setting", key.start_mark)
            if key.value in seen:
                fault = f"the key {shown(key.value)} stands twice in one section"
                raise _refused(fault, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """Return a value's characters. Raises ComposerError if some of them are invisible."""
        text = super().construct_scalar(node)
        if odd := _INVISIBLE.search(text):
            raise _refused(f"found the invisible character {shown(odd[0])}", node.start_mark)
        if node.tag in (INT, FLOAT) and len(text) > MOST_DIGITS:
            raise _refused(f"found a number of {len(text)} characters", node.start_mark)
        return text


class _Sizes:
    """Counts the values of a text, with every alias written out, before any of them is made."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int, int] | None] = {}
        """By a node's id: its values, characters and depth; None while they are counted."""

    def check(self, root: yaml.Node) -> None:
        """Raise ComposerError if the text is too large, too deep, or contains itself."""
        nodes, chars, _ = self._size(root)
        if nodes > MAX_NODES or chars > MAX_EXPANDED:
            raise _refused(
                f"found {nodes} values with {chars} characters, more than {MAX_NODES} or "
                f"{MAX_EXPANDED}",
                root.start_mark,
            )

    def _size(self, node: yaml.Node) -> tuple[int, int, int]:
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise _refused("found an alias of a section within it", node.start_mark)
            return known
        self._known[id(node)] = None
        sizes = [self._size(each) for each in _inner(node)]
        own = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        nodes, chars = 1 + sum(each[0] for each in sizes), own + sum(each[1] for each in sizes)
        depth = 1 + max((each[2] for each in sizes), default=0)
        if depth > MOST_DEPTH:
            raise _refused(f"found more than {MOST_DEPTH} nested levels", node.start_mark)
        self._known[id(node)] = nodes, chars, depth
        return nodes, chars, depth


def _inner(node: yaml.Node) -> list[yaml.Node]:
    match node:
        case yaml.MappingNode(value=pairs):
            return [each for pair in pairs for each in pair]
        case yaml.SequenceNode(value=entries):
            return entries
        case _:
            return []


def _refused(problem: str, mark: yaml.Mark | None) -> yaml.MarkedYAMLError:
    return ComposerError(None, None, problem, mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in (BOOL, INT, FLOAT, VALUE)]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    INT, re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    FLOAT,
    re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)

REMEDIES = (
    (r"mapping values are not allowed", "quote text that has a colon, or check the indentation"),
    (r"character '\\t'", "indent with spaces: YAML takes no tabs"),
    (r"expected <block end>", "settings of one section need the same indentation"),
    (r"could not find expected ':'", "write each setting as `name: value`"),
    (r"unexpected end of stream|while scanning a quoted", "close the quote that begins there"),
    (r"expected ',' or '[}\]]'", "close the bracket, part entries by commas, and quote text that "
     "has a colon or a bracket"),
    (r"undefined alias|character '[@%`&*]'", "put text that begins with this character in quotes"),
    (r"the tag", "leave the tag `!` out, or put text that begins with it in quotes"),
    (r"single document", "leave out the line `---`: a file holds one run"),
    (r"stands twice", "keep one of the two"),
    (r"special characters|invisible character", "delete the invisible character"),
    (r"must be in|out of range|day is", "put text that looks like a date in quotes"),
    (r"found a number of", "give a number of fewer digits"),
    (r"nested levels", "leave out some of the brackets or aliases"),
    (r"alias of a section within it|values with", "write the values without aliases, or fewer"),
    (r"the name of a setting", "write each setting as `name: value`"),
    (r"needs at most", "leave out what is not needed"),
)  # fmt: skip
"""Part of the parser's message -> remedy."""


def parse_yaml(text: str) -> Any:
    """Return the values of ``text``, none of them in two places. Raises NotYamlError."""
    if len(text) > MOST_CHARS:
        fault = f"it needs at most {MOST_CHARS} characters, found {len(text)}"
        raise NotYamlError(_with_remedy(fault))
    with boundary(NotYamlError, "it cannot be read"):
        try:
            return _unshared(yaml.load(text, _Loader))  # noqa: S506, it is a safe loader
        except (yaml.YAMLError, ValueError) as error:
            raise NotYamlError(_with_remedy(_place(error) + _problem(error))) from error


class _Dumper(yaml.SafeDumper):
    """Quotes a text that either YAML 1.1 or the loader would take for a number or the like."""


_Dumper.yaml_implicit_resolvers = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *_Loader.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
}


def write_yaml(value: Any) -> str:
    """Return a struct, or values, as YAML that `parse_yaml` reads as the same values."""
    tree = msgspec.to_builtins(value)
    return yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, sort_keys=False)


def _unshared(tree: Any) -> Any:
    """Return a tree in which an alias is a copy, so that an override changes one place."""
    if isinstance(tree, Mapping):
        section = cast("Mapping[Any, Any]", tree)
        return {key: _unshared(value) for key, value in section.items()}
    if isinstance(tree, list):
        return [_unshared(each) for each in cast("list[Any]", tree)]
    return tree


def _with_remedy(said: str) -> str:
    remedy = next((each for pattern, each in REMEDIES if re.search(pattern, said)), "")
    return f"{said}; {remedy}" if remedy else said


def _place(error: BaseException) -> str:
    """Return the place where the fault began; an unclosed quote or bracket has no useful end."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return ""
    opened = error.context and re.search("quoted|flow", error.context)
    mark = error.context_mark if opened else error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _problem(error: BaseException) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return plain(str(error).replace('in "<unicode string>", ', "at "), SAID_CHARS)
    if error.problem and error.problem.startswith("but "):
        return plain(f"{error.context}, {error.problem}", SAID_CHARS)
    return plain(error.problem or "it cannot be read", SAID_CHARS)
