import pytest

from coevolve.environments.tools.calls import (
    MAX_CHARS,
    MAX_DEPTH,
    NotACallError,
    RefusedCallError,
    parse_call,
)

TOOLS = ("ls", "echo", "add")


@pytest.mark.parametrize(
    ("text", "positional", "named"),
    [
        ("ls()", (), {}),
        ("  ls( a = True )\n", (), {"a": True}),
        ("ls('a', -1, +2.5, None)", ("a", -1, 2.5, None), {}),
        ("ls(x=[1, (2, 'b'), {'k': [False]}])", (), {"x": [1, (2, "b"), {"k": [False]}]}),
        ("ls(x='one' 'two')", (), {"x": "onetwo"}),
        ("echo(content='use sort (x); ls()')", (), {"content": "use sort (x); ls()"}),
        ("echo(content='\\u00e9 é')", (), {"content": "é é"}),
    ],
)
def test_literals_are_read(
    text: str, positional: tuple[object, ...], named: dict[str, object]
) -> None:
    call = parse_call(text, TOOLS)
    assert call.tool == text.strip().split("(")[0]
    assert call.positional == positional
    assert call.named == named


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ls",
        "ls(",
        "ls() + ls()",
        "[ls(), ls()]",
        "ls(); ls()",
        "x = ls()",
        "import os",
        "lambda: ls()",
        "(yield ls())",
        "await ls()",
        "ls() if True else ls()",
        "ls\0()",
        "ls(a=1, a=2)",
        "ls(a=" + "9" * 5000 + ")",
        "ls(" + "[" * 5000 + "]" * 5000 + ")",
        "ls(" + "-" * 9000 + "1)",
        "ls(" + "not " * 4000 + "1)",
        "ls(x='" + "a" * MAX_CHARS + "')",
        "ls(" * 5000,
        "-" * MAX_CHARS,
        "\ud800()",
    ],
)
def test_text_without_a_call_is_refused(text: str) -> None:
    with pytest.raises((NotACallError, RefusedCallError)):
        parse_call(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "(lambda: 41 + 1)()",
        "ls(a=open('/etc/hostname').read())",
        "ls(a=__import__('os').system('touch x'))",
        "ls(a=globals())",
        "ls(a=ls())",
        "ls(a=f'{1}')",
        "ls(a=f'{open(1)}')",
        "ls(a='a' * 10**9)",
        "ls(a=10**9)",
        "ls(a=1 + 2)",
        "ls(a=[x for x in (1,)])",
        "ls(a={**{}})",
        "ls(a={(1,): 2})",
        "ls(a={1, 2})",
        "ls(a=b'x')",
        "ls(a=1j)",
        "ls(a=...)",
        "ls(a=~1)",
        "ls(a=-'x')",
        "ls(a=-[1])",
        "ls(a=(b := 1))",
        "ls(a='\\ud800')",
        "ls(*[1])",
        "ls(**{'a': 1})",
        "ls(a=print)",
        "ls(a=true)",
        "print('x')",
        "exec('1')",
        "eval('1')",
        "ls.__call__()",
        "ls.__globals__['os']()",
        "ls.__self__._load_scenario({})",
        "_load_scenario({})",
        "__init__()",
        "().__class__.__bases__[0].__subclasses__()",
        "ls(" + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + ")",
        "a" + ".a" * 5000 + "()",
    ],
)
def test_hostile_calls_are_refused(text: str) -> None:
    with pytest.raises((NotACallError, RefusedCallError)):
        parse_call(text, TOOLS)


def test_an_unknown_name_is_refused_in_the_words_of_the_package() -> None:
    with pytest.raises(RefusedCallError, match=r"^name 'cat' is not defined$"):
        parse_call("cat(file_name=unknown)", TOOLS)
    with pytest.raises(RefusedCallError, match=r"^name 'GorillaFileSystem' is not defined$"):
        parse_call("GorillaFileSystem.ls()", TOOLS)


def test_nesting_is_allowed_up_to_the_limit() -> None:
    depth = MAX_DEPTH - 1
    assert parse_call("ls(" + "[" * depth + "1" + "]" * depth + ")", TOOLS).positional
