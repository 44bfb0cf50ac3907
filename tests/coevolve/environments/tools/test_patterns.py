import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.tools.patterns import MAX_PATTERN_CHARS, UNPARSABLE, patterns_of
from protocols.evolution import PatternKind
from protocols.rollouts import Action
from tests.coevolve.signals.histories import action

TOOLS = frozenset({"cd", "mv", "wc", "tail"})


def counted(kind: PatternKind, *rollouts: list[Action]) -> dict[str, int]:
    found = patterns_of(rollouts, TOOLS)
    return {each.pattern: each.count for each in found if each.kind == kind}


def test_tools_are_counted_whatever_they_answer():
    calls = [action("cd(folder='a')"), action("cd(folder='b')", "no", failed=True)]
    assert counted("tool", calls, [action("mv(source='a', destination='b')")]) == {"cd": 2, "mv": 1}


def test_a_bigram_ends_with_its_turn_its_rollout_and_at_what_is_no_call():
    rollout = [
        action("cd(folder='a')"),
        action("wc(file_name='a')"),
        action("mv(source='a', destination='b')", turn=1),
        action("mv(", "not a call", turn=1, failed=True),
        action("cd(folder='a')", turn=1),
    ]
    assert counted("tool_bigram", rollout, [action("cd(folder='a')")]) == {"cd > wc": 1}


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("mv(source='a.txt', destination='x/y')", "mv(destination:path, source:name)"),
        ("cd(folder='..')", "cd(folder:path)"),
        ("cd('home')", "cd(0:name)"),
        ("wc('two words', mode='')", "wc(0:text, mode:empty)"),
        ("tail(file_name='17', lines=3)", "tail(file_name:number, lines:int)"),
        ("wc(a=None, b=True, c=-1.5)", "wc(a:none, b:bool, c:float)"),
        (
            "wc(a=['x', 'y'], b=[1, 'x'], c=[], d={'k': 1})",
            "wc(a:list[name], b:list[mixed], c:list[], d:dict)",
        ),
    ],
)
def test_an_argument_shape_has_names_in_order_and_classes_of_values(text: str, shape: str):
    assert counted("argument_shape", [action(text)]) == {shape: 1}


def test_calls_that_fail_have_no_shape():
    assert not counted("argument_shape", [action("cd(dir='a')", "no", failed=True)])


@pytest.mark.parametrize(
    ("text", "result", "error"),
    [
        (
            "mv(source='plan.md', destination='lab')",
            "{\"error\": \"mv: cannot move 'plan.md' to 'lab/plan.md': File exists\"}",
            "mv: cannot move * to *: File exists",
        ),
        (
            "wc(file_name='a b')",
            '{"error": "wc: a b: No such file or directory"}',
            "wc: *: No such file or directory",
        ),
        (
            "cd(folder='a', dir='b')",
            "Error during execution: GorillaFileSystem.cd() got an unexpected keyword argument "
            "'dir'",
            "cd: got an unexpected keyword argument *",
        ),
        ("tail(lines=3)", '{"error": "t9: -12.5 of a7.txt."}', "tail: t#: # of *."),
        ("cd(folder='to')", '{"error": "go to: into"}', "cd: go *: into"),
    ],
)
def test_error_classes_hide_names_numbers_and_quotes(text: str, result: str, error: str):
    assert counted("error_class", [action(text, result, failed=True)]) == {error: 1}


def test_an_invalid_call_is_an_error_class_and_no_tool():
    texts = [action("mv(", failed=True), action("')", failed=True), action("ls()", failed=True)]
    assert counted("error_class", texts) == {
        UNPARSABLE: 2,
        "refused: name * is not defined": 1,
    }
    assert not counted("tool", texts)


@given(st.lists(st.tuples(st.text(), st.text(), st.booleans())))
def test_any_text_has_patterns_of_bounded_length(said: list[tuple[str, str, bool]]):
    actions = [action(text, result, failed=failed) for text, result, failed in said]
    calls = [action(f"mv({text!r})", result, failed=failed) for text, result, failed in said]
    patterns = patterns_of([actions, calls], TOOLS)
    assert all(1 <= len(each.pattern) <= MAX_PATTERN_CHARS for each in patterns)
    assert patterns == patterns_of([calls, actions], TOOLS)
