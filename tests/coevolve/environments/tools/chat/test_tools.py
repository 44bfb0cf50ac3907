from typing import Any

import pytest

from coevolve.environments.tools.bfcl.catalogue import CATEGORIES, load_tasks
from coevolve.environments.tools.bfcl.settings import BfclCategory
from coevolve.environments.tools.bfcl.stock import DOCUMENTS
from coevolve.environments.tools.chat.call_text import call_text
from coevolve.environments.tools.chat.tools import named_arguments, schemas, signatures
from coevolve.environments.tools.task import tool_task
from coevolve.environments.tools.trial import TrialRun


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_reference_call_by_name_does_the_same(category: BfclCategory) -> None:
    for task in load_tasks([category])[::4]:
        body = tool_task(task)
        written = [turn.reference for turn in body.turns]
        named = [
            [call_text(*named_arguments(call, body.classes)) for call in turn] for turn in written
        ]
        assert TrialRun(body, named).play() == TrialRun(body, written).play()


def test_positional_arguments_take_the_names_of_the_signature() -> None:
    assert named_arguments("cp('a', destination='b')", ["GorillaFileSystem"]) == (
        "cp",
        {"source": "a", "destination": "b"},
    )
    call = "purchase_insurance('t', 'travel', 'b1', 20.5, 'c')"
    assert named_arguments(call, ["TravelAPI"])[1]["insurance_cost"] == 20.5


def test_a_call_of_another_class_is_refused() -> None:
    with pytest.raises(ValueError, match="'ls' is not defined"):
        named_arguments("ls()", ["MathAPI"])


def test_tools_are_listed_as_json_schema() -> None:
    names = {"array", "boolean", "integer", "number", "object", "string"}
    found: set[str] = set()

    def walk(schema: object) -> None:
        if isinstance(schema, dict):
            if isinstance(schema.get("type"), str):
                found.add(schema["type"])
            for each in schema.values():
                walk(each)

    for tool in schemas(list(DOCUMENTS)):
        walk(tool["function"]["parameters"])
    assert found == names


def test_tools_can_be_withheld() -> None:
    told = [tool["function"]["name"] for tool in schemas(["MathAPI"], ("mean",))]
    assert "mean" not in told
    assert "add" in told


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
