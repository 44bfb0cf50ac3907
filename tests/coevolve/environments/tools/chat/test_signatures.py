"""Tools as lines of Python signatures."""

from typing import Any

import pytest

from coevolve.environments.tools.chat.signatures import signatures


def tool(
    name: str, description: str = "", /, *required: str, **parameters: object
) -> dict[str, Any]:
    """Return a tool in OpenAI's format."""
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (tool("ls"), "ls()"),
        (tool("ls", "List files. Hidden ones, too."), "ls()  # List files."),
        (tool("cat", "Show it", "name", name={"type": "string"}), "cat(name: str)  # Show it"),
        (
            tool("du", "Use: all", human={"type": "boolean", "default": False}),
            "du(human: bool = False)  # Use: all",
        ),
        (tool("sort", "", "by", by={"enum": ["size", "name"]}), "sort(by: 'size' | 'name')"),
        (tool("put", "", "v", v={"type": ["integer", "null"]}), "put(v: int | None)"),
        (tool("any", "", "v", v={}), "any(v: Any)"),
        (tool("opt", "", v={"type": "number"}), "opt(v: float = None)"),
        (tool("two", "a\n  b."), "two()  # a b."),
    ],
)
def test_a_tool_is_one_line(given: dict[str, Any], line: str):
    assert signatures([given]) == line


def test_what_all_descriptions_begin_with_is_left_out():
    shared = "This tool belongs to the shop. Tool description: "
    lines = signatures([tool("buy", shared + "Buy it. Now."), tool("sell", shared + "Sell it.")])
    assert lines == "buy()  # Buy it.\nsell()  # Sell it."


@pytest.mark.parametrize("texts", [("Return one.", "Return two."), ("Same.", "Same."), ("", "A.")])
def test_words_that_begin_a_sentence_stay(texts: tuple[str, str]):
    first, second = (tool(name, text) for name, text in zip("ab", texts, strict=True))
    assert signatures([first, second]) == "\n".join(
        f"{name}()  # {text}" if text else f"{name}()"
        for name, text in zip("ab", texts, strict=True)
    )
