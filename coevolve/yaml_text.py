"""Parses YAML, and describes syntax errors in one sentence."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """A safe loader: `1e-3` is a number, `off` is text, and duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the section. Raises ConstructorError if a key occurs twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    fault = f"the key {key.value!r} stands twice in one section"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


BOOL = "tag:yaml.org,2002:bool"
INT = "tag:yaml.org,2002:int"

# As in YAML 1.2: `off`, `no` and so on are text, `010` is not 8, and `1:30` is not 90.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in (BOOL, INT)]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_implicit_resolver(
    INT, re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""Impossible dates, endless numbers and bottomless nesting raise the last two."""

REMEDIES = (
    (r"mapping values are not allowed", "quote text that has a colon, or check the indentation"),
    (r"character '\\t'", "indent with spaces: YAML takes no tabs"),
    (r"expected <block end>", "settings of one section need the same indentation"),
    (r"could not find expected ':'", "write each setting as `name: value`"),
    (r"unexpected end of stream|while scanning a quoted", "close the quote that begins there"),
    (r"expected ',' or '[}\]]'", "close the bracket, part entries by commas, and quote text that "
     "has a colon or a bracket"),
    (r"undefined alias|character '[@%`&*]'", "put text that begins with this character in quotes"),
    (r"determine a constructor", "leave the tag `!` out"),
    (r"single document", "leave out the line `---`: a file holds one run"),
    (r"stands twice", "keep one of the two"),
    (r"special characters", "delete the invisible character"),
    (r"must be in|out of range|day is", "put text that looks like a date in quotes"),
    (r"string conversion", "give a number of fewer digits"),
    (r"recursion", "leave out some of the brackets"),
)  # fmt: skip
"""Part of the parser's message -> remedy."""


def parse_yaml(text: str) -> Any:
    """Return the content of ``text``. Raises one of `NOT_YAML`."""
    return yaml.load(text, _Loader)  # noqa: S506, it is a safe loader


def yaml_fault(error: BaseException) -> str:
    """Return the message of one of `NOT_YAML`, with line, column and remedy."""
    said = _place(error) + _problem(error)
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
        return " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
    if error.problem and error.problem.startswith("but "):
        return f"{error.context}, {error.problem}"
    return error.problem or "it cannot be read"
