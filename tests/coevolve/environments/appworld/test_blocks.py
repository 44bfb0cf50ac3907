"""Blocks of code as text: fences, named APIs, patterns, mutants."""

import ast
import random
import subprocess
import sys

import pytest

from coevolve.environments.appworld.blocks import apis_in, block_in, fenced
from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.appworld.patterns import count_apis
from coevolve.environments.tools.patterns import patterns_of
from protocols.rollouts import Action

TOOLS = {"spotify.login", "spotify.show_song", "phone.login"}
REFERENCE = (
    "token = apis.phone.login(username='a', password='b')",
    "for n in range(3):\n    apis.phone.delete_alarm(alarm_id=n, access_token=token)",
    "apis.supervisor.complete_task(answer=3)",
)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("```python\nx = 1\n```", "x = 1"),
        ("First:\n```python\nx = 1\n```\nThen:\n```python\ny\n```", "x = 1"),
        ("```py\nx = 1", "x = 1"),
        ("```\nx\n```", "x"),
        ("x = 1", ""),
        ("`x`", ""),
        (fenced("x = '```'"), "x = '```'"),
        ("```Python\nx\n```", "x"),
        ("```python3\nx\n```", "x"),
        ("```PYTHON3.11\nx\n```", "x"),
        ("```ipython\nx\n```", "x"),
        ("```python\r\nx\r\n```\r\n", "x"),
        ("``` py \r\nx\r\n```", "x"),
        ("```python title=x\nx\n```", "x"),
        ("````python\nx = '```'\n```\n````", "x = '```'\n```"),
        ('```python\nx = """\n```\n"""\ny\n```\nDone.', 'x = """\n```\n"""\ny'),
        ('```python\nx = "it\'s ```"  # ``` here\ny\n```', 'x = "it\'s ```"  # ``` here\ny'),
        ("```python\nx = 'a\\'```'\n```", "x = 'a\\'```'"),
        ("```python\nx = '''\n```", "x = '''"),
        ("Here: ```python\nx```", "x"),
        ("```json\n{}\n```", ""),
        ("```bash\nls\n```\nSo:\n```python\nx\n```", "x"),
        ("Use ```x``` now:\n```python\ny\n```", "y"),
        ("```text\n```python\n", ""),
    ],
)
def test_a_message_has_the_first_fenced_block(message: str, code: str) -> None:
    assert block_in(message) == code


def test_apis_are_named_in_the_order_of_the_text() -> None:
    code = "t = apis.spotify.login()\nfor n in x:\n    print(apis.spotify.show_song(a=f(apis.a.b)))"
    assert apis_in(code) == ("spotify.login", "spotify.show_song", "a.b")
    assert apis_in("apis.spotify\nother.spotify.login()") == ()
    for unreadable in ("x = = 1", "(" * 1000, "\0"):
        with pytest.raises(ValueError, match="no Python code"):
            apis_in(unreadable)


def test_patterns_are_apis_pairs_and_masked_errors() -> None:
    told = "Execution failed. Traceback:\n  ...\nKeyError: 'Rain 7'"
    actions = (
        Action(turn=0, text="apis.spotify.login()\napis.x.y()", result="", failed=False),
        Action(turn=0, text="apis.spotify.show_song(song_id=1)", result=told, failed=True),
        Action(turn=0, text="x = = 1", result="...", failed=True),
    )
    assert [
        (each.kind, each.pattern, each.count) for each in patterns_of([actions], TOOLS, count_apis)
    ] == [
        ("error_class", "KeyError: *", 1),
        ("error_class", "no Python code", 1),
        ("tool", "spotify.login", 1),
        ("tool", "spotify.show_song", 1),
        ("tool_bigram", "spotify.login > spotify.show_song", 1),
    ]


def test_mutants_differ_from_the_reference_are_code_and_of_every_kind() -> None:
    mutants = mutants_of(REFERENCE, random.Random(1), 40)
    assert {each.kind for each in mutants} == {
        *("drop_statement", "swap_literals", "change_literal", "change_answer", "add_write"),
    }
    assert len({each.blocks for each in mutants}) == len(mutants) > 12
    original = tuple(ast.unparse(ast.parse(block)) for block in REFERENCE)
    for each in mutants:
        assert each.blocks != original
        for block in each.blocks:
            ast.parse(block)
    assert mutants_of(REFERENCE, random.Random(1), 40) == mutants
    assert len(mutants_of(REFERENCE, random.Random(2), 5)) == 5


def test_warnings_about_a_policys_code_are_written_nowhere() -> None:
    program = f"from {apis_in.__module__} import apis_in\nprint(apis_in('1if 1else apis.a.b'))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("('a.b',)\n", "")
