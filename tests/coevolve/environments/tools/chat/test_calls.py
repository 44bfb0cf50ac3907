import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.tools.calls import NotACallError, RefusedCallError, parse_call
from coevolve.environments.tools.chat.call_text import (
    MalformedCallsError,
    call_text,
    python_list,
)
from coevolve.environments.tools.chat.calls import FORMS, CallForm, read_calls
from coevolve.environments.tools.chat.typed import alike, parameter_types, typed
from tests.coevolve.environments.tools.chat.written import PARAMETERS, TYPES, WRITERS, values

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
MALFORMED = None


@given(arguments=st.dictionaries(st.from_regex(r"[a-z_]{3,8}_", fullmatch=True), VALUES))
def test_a_call_is_written_as_a_python_expression(arguments: dict[str, object]) -> None:
    text = call_text("tool", arguments)
    assert parse_call(text, {"tool"}) == ("tool", (), arguments)
    assert read_calls("python", python_list((text,))) == (text,)


@pytest.mark.parametrize("name", ["a b", "from", "class", "a=1, b", ""])
def test_a_name_that_no_argument_has_is_no_call(name: str) -> None:
    with pytest.raises(ValueError, match="needs names of arguments"):
        call_text("tool", {name: 1})


def check(form: CallForm, text: str, calls: tuple[str, ...] | None) -> None:
    """Check that ``calls`` are read; with `MALFORMED`, that the message is refused."""
    if calls is not MALFORMED:
        assert read_calls(form, text, TYPES) == calls
        return
    with pytest.raises(MalformedCallsError, match=r".+"):
        read_calls(form, text, TYPES)


PUT = '{"name": "put", "arguments": {"key": "a", "value": %s}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("All done.", ()),
        ("", ()),
        ("</tool_call>", ()),
        ('{"name": "ls", "arguments": {}}</tool_call>', ()),
        ('{"status": "done"}', ()),
        ('<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>', ("ls()",)),
        ('First <tool_call>{"name": "cd", "arguments": {"f": "a"}}</tool_call> x', ("cd(f='a')",)),
        (
            '<tool_call>{"name": "ls", "arguments": {}}</tool_call>\n'
            '<tool_call>{"name": "pwd", "arguments": {}}</tool_call>',
            ("ls()", "pwd()"),
        ),
        ('<tool_call>{"name": "ls", "arguments": null}</tool_call>', ("ls()",)),
        ('<tool_call>{"name": "ls", "arguments": ""}</tool_call>', ("ls()",)),
        ('<tool_call>{"name": "ls", "arguments": {}}', ("ls()",)),
        ('<tool_call>{"name": "ls", "arguments": {}} \n', ("ls()",)),
        *(
            (f"<tool_call>{PUT % json}</tool_call>", (f"put(key='a', value={python})",))
            for json, python in (
                ('"x </tool_call> y"', "'x </tool_call> y'"),
                ('"</tool_call>"', "'</tool_call>'"),
                ('"x <tool_call> y"', "'x <tool_call> y'"),
                ('"<tool_call>{}</tool_call>"', "'<tool_call>{}</tool_call>'"),
                ('"a\\"</tool_call>\\" b"', "'a\"</tool_call>\" b'"),
                ('["</tool_call>", {"</tool_call>": 1}]', "['</tool_call>', {'</tool_call>': 1}]"),
                ('"```json"', "'```json'"),
                ('"</think>"', "'</think>'"),
            )
        ),
        *(
            (text, MALFORMED)
            for text in (
                '<tool_call>{"name": "ls"}</tool_call>',
                '<tool_call>{"name": "ls", "arguments": {}',
                "<tool_call></tool_call>",
                "<tool_call>",
                "<tool_call>ls()</tool_call>",
                f"<tool_call>{PUT % 1} {PUT % 1}</tool_call>",
                f"<tool_call>{PUT % 1} please</tool_call>",
                f"<tool_call>{PUT % 1}<tool_call>{PUT % 1}</tool_call>",
                f"<tool_call>{PUT % 1}</tool_call",
                f"<tool_call>```json\n{PUT % 1}\n```</tool_call>",
                '<tool_call>{"arguments": {}}</tool_call>',
                '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
                '<tool_call>{"name": "ls", "parameters": {}}</tool_call>',
                '<tool_call>{"name": "ls", "arguments": "a"}</tool_call>',
                '<tool_call>{"name": "ls", "arguments": []}</tool_call>',
                '<tool_call>["ls"]</tool_call>',
                '<tool_call>{"name": "rm(x=1) #", "arguments": {}}</tool_call>',
                '<tool_call>{"name": "rm", "arguments": {"a=1, b": 2}}</tool_call>',
                '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
                '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "</tool_call>",
            )
        ),
    ],
)
def test_tags_hold_one_call_each(text: str, calls: tuple[str, ...] | None) -> None:
    check("tags", text, calls)


LS = '{"name": "ls", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("It is done.", ()),
        ('{"status": "done"}', ()),
        ('{"name": "Bob", "age": 3}', ()),
        ("Set {x} to {y}.", ()),
        ("{}", ()),
        ('{"a": 1}', ()),
        ("{", ()),
        (LS, ("ls()",)),
        (f"Here: {LS}", ("ls()",)),
        (f"```json\n{LS}\n```", ("ls()",)),
        (f"{LS} and so on", ("ls()",)),
        (f"{LS}; {LS}", ("ls()", "ls()")),
        (f"[{LS}, {LS}]", ("ls()", "ls()")),
        ('{"name": "ls", "parameters": null}', ("ls()",)),
        ('{"name": "ls", "arguments": {}, "parameters": {"a": 1}}', ("ls()",)),
        (' <|python_tag|>{"name": "f", "parameters": {"a": true}}', ("f(a=True)",)),
        ('{"name": "f", "parameters": {"a": "}; {"}}', ("f(a='}; {')",)),
        *(
            (text, MALFORMED)
            for text in (
                '{"name": "ls"}',
                '{"name": "ls"',
                '{"name": "f", "parameters": {"a": "x}',
                '{"name": "f", "parameters": ["a"]}',
                '{"parameters": {"a": 1}}',
                '{"type": "function", "function": {"name": "ls", "parameters": {}}}',
                f"{LS}{LS}",
                f"{LS} and {{x}}",
                "<|python_tag|>ls.call()",
            )
        ),
    ],
)
def test_json_calls_stand_among_words(text: str, calls: tuple[str, ...] | None) -> None:
    check("json", text, calls)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Finished (really).", ()),
        ("[]", ()),
        ("[Note] The value is set.", ()),
        ("[a](#a) is set.", ()),
        ("[1] and [2] are done.", ()),
        ("put(key='a', value='1') was called, so it is set.", ()),
        ("[put(key='a')] was called; nothing is left to do.", ()),
        ("put(key='it)', value=1)\nwas called.", ()),
        ('{"status": "done"}', ()),
        ("[ls]", ()),
        ("['ls']", ()),
        ("[\0]", ()),
        ("[ls()]", ("ls()",)),
        ("ls()", ("ls()",)),
        ("[ls()", ("ls()",)),
        ("ls()]", ("ls()",)),
        ("[cd(folder='a, b'),\n mkdir('ü')]", ("cd(folder='a, b')", "mkdir('ü')")),
        ("```\n[ls(a=True)]\n```", ("ls(a=True)",)),
        ("`ls()`", ("ls()",)),
        ("cd('x'), ls()", ("cd('x')", "ls()")),
        ("[put(key='a', value='x</think>y')]", ("put(key='a', value='x</think>y')",)),
        ("[put(value='```')]", ("put(value='```')",)),
        ("[ls(]", MALFORMED),
        ("ls(", MALFORMED),
        ("[f() + 1]", MALFORMED),
        ("[put(key='a)]", MALFORMED),
        ("[put(key=a b)]", MALFORMED),
        ("[ls()], [ls()]", MALFORMED),
        ("```python\n[ls(a=True)]\n```", MALFORMED),
        ("```python3\n[ls(a=True)]\n```", MALFORMED),
        ("```Python\r\n[ls(a=True)]\r\n```", MALFORMED),
        ("```tool_code\nls(a=True)\n```", MALFORMED),
        ("ls(a=True)\ncd('x')", MALFORMED),
        ("[ls()]\r\n\r\n  [cd('x')]", MALFORMED),
        ("ls(a=True)\nIt listed all (five).", ()),
        ("```text\nAll is set (see above).\n```", ()),
    ],
)
def test_python_is_a_list_of_calls(text: str, calls: tuple[str, ...] | None) -> None:
    check("python", text, calls)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Done.", ()),
        ("[]", ()),
        ("[ls()]", ("ls()",)),
        ("[put(key='a', value=-1.5), ls()]", ("put(key='a', value=-1.5)", "ls()")),
        ("[put(key=null, value=[true, (1, 2)])]", ("put(key=None, value=[True, [1, 2]])",)),
        ("[put(key='a')] was called.", MALFORMED),
        ("[put(key='a')]\nok", MALFORMED),
        ("[put('a')]", MALFORMED),
        ("[put(key=a)]", MALFORMED),
        ("[put(key=1 + 2)]", MALFORMED),
        ("[put(**{'key': 1})]", MALFORMED),
        ("put(key='a')", MALFORMED),
        ("[put(key='a'", MALFORMED),
    ],
)
def test_pythonic_calls_have_named_literals(text: str, calls: tuple[str, ...] | None) -> None:
    check("pythonic", text, calls)


def wrapped(text: str) -> str:
    return f"<|tool_call_start|>{text}<|tool_call_end|>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Done.", ()),
        ("[ls()]", ()),
        (wrapped("[ls()]"), ("ls()",)),
        (f"I look. {wrapped('[ls(), get(key=1)]')} So.", ("ls()", "get(key=1)")),
        ("<|tool_call_start|>[ls()]", ("ls()",)),
        (
            wrapped("[put(value='say \"hi\"', key='it's')]"),
            ('put(value=\'say "hi"\', key="it\'s")',),
        ),
        (wrapped("[put(key='it's', value='b')]"), MALFORMED),  # two ways to read it
        (wrapped("[put(key='two\nlines')]"), ("put(key='two\\nlines')",)),
        (wrapped("[put(key='a <|tool_call_end|> b')]"), ("put(key='a <|tool_call_end|> b')",)),
        (wrapped("[put(count=07)]"), ("put(count=7)",)),
        (wrapped("[]"), MALFORMED),
        (wrapped("ls()"), MALFORMED),
        (wrapped("[ls()]") * 2, MALFORMED),
        (wrapped("[put('a')]"), MALFORMED),
        ("<|tool_call_start|>[put(key='a'", MALFORMED),
    ],
)
def test_wrapped_calls_stand_between_two_tokens(text: str, calls: tuple[str, ...] | None) -> None:
    check("wrapped", text, calls)


def xml(body: str, name: str = "put") -> str:
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def parameter(name: str, value: str) -> str:
    return f"<parameter={name}>\n{value}\n</parameter>\n"


A = parameter("key", "a")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Done.", ()),
        ("</tool_call>", ()),
        (xml("", "ls"), ("ls()",)),
        (f"I put it. {xml(A)} So.", ("put(key='a')",)),
        (f"{xml(A)}\n{xml('', 'ls')}", ("put(key='a')", "ls()")),
        (
            xml(parameter("count", "3") + parameter("flag", "True") + parameter("key", "1")),
            ("put(count=3, flag=True, key='1')",),
        ),
        (xml(parameter("many", '["a", 1]') + parameter("maybe", "null")), None),
        (xml(parameter("key", "two\n\nlines\n")), ("put(key='two\\n\\nlines\\n')",)),
        (xml(parameter("key", "<function=ls> </tool_call>")), None),
        (xml(A).removesuffix("</tool_call>"), ("put(key='a')",)),
        (xml(A).removesuffix("</function>\n</tool_call>"), ("put(key='a')",)),
        (f"<function=put>\n{A}</function>", ("put(key='a')",)),
        (xml(f"<parameter=key>\na\n{parameter('value', 'b')}"), MALFORMED),
        (
            xml("<parameter=key>a</parameter><parameter=count>3</parameter>"),
            ("put(key='a', count=3)",),
        ),
        (xml(parameter("key", "x </parameter> y")), MALFORMED),
        (xml(parameter("key", "x <parameter=value> y")), MALFORMED),
        (xml(parameter("key", "x </function> y")), MALFORMED),
        (xml(f"first {A}"), MALFORMED),
        ("<tool_call>\n<function=put>\n<parameter=key>\na", MALFORMED),
        ("<tool_call>\n<function=put", MALFORMED),
        (xml(A, "put it"), MALFORMED),
        (f"<tool_call>{PUT % 1}</tool_call>", MALFORMED),
        ("<tool_call></tool_call>", MALFORMED),
    ],
)
def test_xml_has_a_tag_for_each_argument(text: str, calls: tuple[str, ...] | None) -> None:
    expected = {
        "many": ("put(many=['a', 1], maybe=None)",),
        "<function=ls>": ("put(key='<function=ls> </tool_call>')",),
    }
    for word, whole in expected.items():
        if word in text and calls is None:
            calls = whole
    check("xml", text, calls)


def keys(*pairs: tuple[str, str], name: str = "put") -> str:
    said = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in pairs)
    return f"<tool_call>{name}\n{said}</tool_call>"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Done.", ()),
        (keys(name="ls"), ("ls()",)),
        (f"I put. {keys(('key', 'a'), ('count', '3'))} So.", ("put(key='a', count=3)",)),
        (keys(("key", "x <tool_call> y")), ("put(key='x <tool_call> y')",)),
        (keys(("obj", '{"a": null}'), ("maybe", "null")), ("put(obj={'a': None}, maybe=None)",)),
        (keys(("key", "a")).removesuffix("</tool_call>"), ("put(key='a')",)),
        (keys(("key", "x </tool_call> y")), MALFORMED),
        (keys(("key", "x </arg_value> y")), MALFORMED),
        (keys(("key", "a"), name="nope"), MALFORMED),
        ("<tool_call>", MALFORMED),
        (f"<tool_call>{PUT % 1}</tool_call>", MALFORMED),
    ],
)
def test_keys_have_two_tags_for_each_argument(text: str, calls: tuple[str, ...] | None) -> None:
    check("keys", text, calls)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("1", {"type": "string"}, "1"),
        ("1", {"type": "integer"}, 1),
        ("1", None, "1"),
        ("1", {}, "1"),
        ("2.0", {"type": "number"}, 2),
        ("inf", {"type": "number"}, "inf"),
        ("TRUE", {"type": "boolean"}, True),
        ("null", {"type": ["string", "null"]}, None),
        ("None", {"type": ["string", "null"]}, "None"),
        ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("x", {"type": "integer"}, "x"),
        ("2", {"enum": [1, 2]}, 2),
        ("[1]", {"type": "list"}, [1]),
        ("[1", {"type": "array"}, "[1"),
        ("[NaN]", {"type": "array"}, "[NaN]"),
        ("[" * 3000, {"type": "object"}, "[" * 3000),
    ],
)
def test_a_value_has_the_type_of_its_parameter(text: str, schema: object, value: object) -> None:
    parameters = {"properties": {"a": schema}}
    types = parameter_types([{"function": {"name": "f", "parameters": parameters}}])
    found = typed(text, types["f"]["a"])
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_back_or_refused(form: CallForm) -> None:
    lost = 0
    for value in values():
        arguments = {"key": "a", "value": value}
        try:
            found = read_calls(form, WRITERS[form]("put", arguments), TYPES)
        except MalformedCallsError:
            lost += 1
            continue
        (call,) = found
        read = parse_call(call, {"put"}).named
        if not alike(read, arguments):
            assert form in ("xml", "keys"), (call, arguments)
            lost += 1
    assert lost == 0 if form in ("tags", "json", "pythonic", "wrapped") else lost < 60


PIECES = ["", "x", '"', "'", "\n", "{", "]", "```", "</think>", "<tool_call>", "</tool_call>", "; "]


@pytest.mark.parametrize("form", [*FORMS, "python", "bfcl"])
def test_a_mutated_message_is_calls_words_or_a_named_error(form: CallForm) -> None:
    chance = random.Random(form)
    kinds = {"calls": 0, "words": 0, "error": 0}
    for _ in range(1250):
        try:
            found = read_calls(form, mutated(form, chance), TYPES)
        except MalformedCallsError as error:
            kinds["error"] += len(str(error)) > 10
            continue
        kinds["calls" if found else "words"] += 1
        for call in found:
            with contextlib.suppress(NotACallError, RefusedCallError):  # as a simulator answers
                parse_call(call, {"put", "get", "ls"})
    assert kinds["calls"]
    assert kinds["words"]
    assert kinds["error"] or form == "bfcl"


def mutated(form: CallForm, chance: random.Random) -> str:
    """Return a message with calls, some of whose characters and pieces were changed."""
    if chance.random() < 0.1:
        return f"It is {chance.choice(PIECES[:-4])} done."
    write = WRITERS[form]
    count = 2 if form in ("tags", "xml", "keys", "json") else 1
    texts = [write("put", {"key": "a", "value": chance.choice(values())}) for _ in range(count)]
    text = "\n".join(texts)
    for _ in range(chance.randrange(4)):
        place, length = chance.randrange(len(text) + 1), chance.choice([0, 1, 1, 5, 20])
        text = text[:place] + chance.choice(PIECES) + text[place + length :]
    return text


@pytest.mark.parametrize("form", [*FORMS, "python", "bfcl"])
def test_no_argument_is_cut_whatever_stands_around_a_call_and_wherever_it_ends(
    form: CallForm,
) -> None:
    chance = random.Random(f"{form} whole")
    read = 0
    for _ in range(600):
        written = {"key": chance.choice([" a ", "b"]), "value": chance.choice(values())}
        text = WRITERS[form]("put", written)
        text = text[: chance.choice([len(text), len(text), chance.randrange(len(text) + 1)])]
        before, after = chance.choice(PIECES), chance.choice(PIECES)
        message = chance.choice([text, f"{before}{text}{after}", f"So: {before} {text} {after} Y"])
        try:
            found = read_calls(form, message, TYPES)
        except MalformedCallsError:
            continue
        for call in found:
            try:
                arguments = parse_call(call, {"put"}).named
            except (NotACallError, RefusedCallError):
                assert form == "bfcl"  # which writes some objects so that they cannot be executed
                continue
            read += bool(arguments)
            for name, value in arguments.items():
                assert is_read(form, written[name], value), (message, call)
    assert read > 100


def is_read(form: CallForm, written: object, value: object) -> bool:
    """Return whether a value is the written one; without quotes a text may look like another."""
    if form in ("xml", "keys") and isinstance(written, str):
        return alike(value, written) or alike(value, typed(written, PARAMETERS["value"]))
    return alike(value, written)
