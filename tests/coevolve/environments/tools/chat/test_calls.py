import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.chat.calls import (
    call_text,
    python_list,
    read_calls,
    spoken,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.from_regex(r"[a-z_]{3,8}_", fullmatch=True), VALUES))
def test_a_call_is_written_as_a_python_expression(arguments: dict[str, object]) -> None:
    text = call_text("tool", arguments)
    assert parse_call(text, {"tool"}) == ("tool", (), arguments)
    assert read_calls("python", python_list((text,))) == (text,)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("All done.", ()),
        ("", ()),
        ('<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>', ("ls()",)),
        ('First <tool_call>{"name": "cd", "arguments": {"folder": "a b"}}</tool_call> then', None),
        ('<tool_call>{"name": "ls"}</tool_call>\n<tool_call>{"name": "pwd"}</tool_call>', None),
    ],
)
def test_tags_hold_one_call_each(text: str, calls: tuple[str, ...] | None) -> None:
    expected = {3: ("cd(folder='a b')",), 4: ("ls()", "pwd()")}
    found = read_calls("tags", text)
    assert found == calls if calls is not None else found in expected.values()


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "ls"}',
        '{"name": "ls"}</tool_call>',
        "<tool_call></tool_call>",
        "<tool_call>ls()</tool_call>",
        '<tool_call>{"name": "ls"} {"name": "ls"}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "ls", "arguments": "a"}</tool_call>',
        '<tool_call>["ls"]</tool_call>',
        '<tool_call>{"name": "rm(x=1) #", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "rm", "arguments": {"a=1, b": 2}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "</tool_call>",
    ],
)
def test_tags_without_a_call_are_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_calls("tags", text)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("It is done.", ()),
        ('Here: {"name": "ls"}', ()),
        ('{"name": "ls", "parameters": {}}', ("ls()",)),
        (
            ' <|python_tag|>{"name": "f", "parameters": {"a": true, "b": null}}',
            ("f(a=True, b=None)",),
        ),
        (
            '{"name": "f", "parameters": {"a": 1.5}}; {"name": "g", "arguments": {}}',
            ("f(a=1.5)", "g()"),
        ),
    ],
)
def test_json_is_the_whole_message(text: str, calls: tuple[str, ...]) -> None:
    assert read_calls("json", text) == calls


@pytest.mark.parametrize("text", ['{"name": "ls"', '{"name": "ls"} and', "{}", '{"a": 1}'])
def test_json_without_a_call_is_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_calls("json", text)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Finished (really).", ()),
        ("[]", ()),
        ("[ls()]", ("ls()",)),
        ("ls()", ("ls()",)),
        ("[cd(folder='a, b'),\n mkdir('ü')]", ("cd(folder='a, b')", "mkdir('ü')")),
        ("```python\n[ls(a=True)]\n```", ("ls(a=True)",)),
        ("cd('x'), ls()", ("cd('x')", "ls()")),
    ],
)
def test_python_is_a_list_of_calls(text: str, calls: tuple[str, ...]) -> None:
    assert read_calls("python", text) == calls


@pytest.mark.parametrize("text", ["[ls(]", "[ls]", "['ls']", "ls(", "[ls()", "[f() + 1]", "[\0]"])
def test_python_that_is_no_list_of_calls_is_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r"calls need the form \[f\(a=1\), g\(\)\]"):
        read_calls("python", text)


def test_thinking_is_removed_from_the_text() -> None:
    assert spoken("<think>\n[ls()]\n</think>\n\nDone.", thinking=False) == "Done."
    assert spoken("ls?</think>Done.", thinking=True) == "Done."
    assert spoken("Done.", thinking=False) == "Done."


@pytest.mark.parametrize(("text", "thinking"), [("<think>\nHm", False), ("Hm", True)])
def test_thinking_without_end_is_malformed(text: str, thinking: bool) -> None:
    with pytest.raises(ValueError, match="needs to end its thinking by </think>"):
        spoken(text, thinking=thinking)
