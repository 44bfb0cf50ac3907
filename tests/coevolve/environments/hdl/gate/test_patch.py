import contextlib
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.environments.hdl.gate.patch import (
    MOST_CHARS,
    MOST_LOOKED_AT,
    PatchError,
    apply,
    occurrences,
)

BASE = """module tb;
  logic a, b;

  initial begin
    a = 0;
    #10;
    a = 1;
    #10;
    $finish;
  end
endmodule
"""


def diff(old: str, new: str, context: int = 3) -> str:
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=context)
    return "\n".join(lines)


def test_a_hunk_replaces_its_old_lines_between_its_context() -> None:
    patch = "@@\n     a = 0;\n-    #10;\n+    #20;\n+    b = 1;\n     a = 1;\n"
    assert apply(BASE, patch) == BASE.replace("#10;\n    a = 1", "#20;\n    b = 1;\n    a = 1")


def test_no_changes_changes_nothing() -> None:
    assert apply(BASE, "\nNO_CHANGES\n") == BASE


def test_context_is_found_without_its_indentation_and_the_text_keeps_it() -> None:
    patch = "@@\n a = 0;\n-#10;\n+    #20;\n a = 1;"
    assert apply(BASE, patch) == BASE.replace("#10;\n    a = 1", "#20;\n    a = 1")


def test_trailing_blanks_do_not_matter() -> None:
    base = BASE.replace("a = 0;", "a = 0;   ")
    patched = apply(base, "@@\n     a = 0;\n+    b = 0;\n     #10;\n     a = 1;\n")
    assert patched == base.replace("a = 0;   \n", "a = 0;   \n    b = 0;\n")


def test_an_empty_line_is_blank_context() -> None:
    patch = "@@\n   logic a, b;\n\n+  logic c;\n   initial begin\n"
    assert apply(BASE, patch) == BASE.replace("\n\n", "\n\n  logic c;\n")


def test_blank_lines_that_were_left_out_or_added_do_not_matter() -> None:
    left_out = "@@\n   logic a, b;\n+  logic c;\n   initial begin\n"
    assert apply(BASE, left_out) == BASE.replace("a, b;\n", "a, b;\n  logic c;\n")
    added = "@@\n     a = 0;\n\n-    #10;\n     a = 1;\n"
    assert apply(BASE, added) == BASE.replace("#10;\n    a = 1", "a = 1")


def test_a_hunk_without_a_unique_place_fails() -> None:
    with pytest.raises(PatchError, match="hunk 1: its old lines occur at 2 places") as caught:
        apply(BASE, "@@\n-    #10;\n+    #20;\n")
    assert caught.value.hunks == (1,)


def test_a_line_number_or_the_hunk_before_decides_between_matches() -> None:
    second = BASE.replace("#10;\n    $finish", "#20;\n    $finish")
    assert apply(BASE, "@@ -8,1 +8,1 @@\n-    #10;\n+    #20;\n") == second
    in_order = "@@\n-    a = 1;\n+    a = 1;\n@@\n-    #10;\n+    #20;\n"
    assert apply(BASE, in_order) == second


def test_all_failed_hunks_are_named_and_nothing_is_applied() -> None:
    patch = (
        "@@\n-    a = 0;\n+    a = 5;\n"
        "@@\n-    nowhere;\n+    x;\n"
        "@@\n     a = 1;\n"
        "@@\nno prefix\n-    $finish;\n"
    )
    with pytest.raises(PatchError) as caught:
        apply(BASE, patch)
    assert caught.value.hunks == (2, 3, 4)
    for words in (
        "hunk 2: its old lines are not in the testbench",
        "'-' or '+', found none",
        "'no prefix'",
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "module tb;\nendmodule", "Here is the patch:\n@@\n-a\n+b"])
def test_a_text_that_is_not_a_patch_is_refused_without_hunks(text: str) -> None:
    with pytest.raises(PatchError, match="a patch") as caught:
        apply(BASE, text)
    assert caught.value.hunks == ()


def test_a_hunk_applies_to_the_result_of_the_one_before() -> None:
    patch = "@@\n-    a = 0;\n+    b = 0;\n@@\n     b = 0;\n+    b = 1;\n     #10;\n"
    assert apply(BASE, patch) == BASE.replace("a = 0;", "b = 0;\n    b = 1;")


def test_new_lines_go_into_an_empty_text() -> None:
    assert apply("", "@@\n+module tb;\n+endmodule\n").split("\n")[:2] == ["module tb;", "endmodule"]


def test_the_number_of_hunks_is_limited():
    lines = 2000
    base = "\n".join(f"line {number};" for number in range(lines))
    hunks = [f"@@\n-line {number};\n+new {number};\n" for number in range(lines)]
    fitting = next(n for n in range(lines) if (n + 1) * (lines + 3 * n + 4) > MOST_LOOKED_AT)
    assert apply(base, "".join(hunks[:fitting])).count("new") == fitting
    with pytest.raises(PatchError, match=rf"has at most \d+ hunks, found {lines}") as caught:
        apply(base, "".join(hunks))
    assert caught.value.hunks == ()


@pytest.mark.parametrize("digits", [10, 5000])
def test_a_line_number_with_too_many_digits_is_ignored(digits: int):
    header = f"@@ -{'9' * digits},1 +{'9' * digits},1 @@"
    assert apply(BASE, f"{header}\n-    a = 0;\n+    b = 0;\n") == BASE.replace("a = 0", "b = 0")


LINES = st.lists(st.sampled_from(["", " ", "a", "  a", "b;", "-c", "+d", "@e", "\\f"]), max_size=25)


@given(old=LINES, new=LINES, context=st.integers(0, 3))
def test_a_unified_diff_of_two_texts_turns_the_one_into_the_other(
    old: list[str], new: list[str], context: int
) -> None:
    before, after = "\n".join(old), "\n".join(new)
    patch = diff(before, after, context) or "NO_CHANGES"
    assert apply(before, patch) == after


@given(
    old=st.lists(st.integers(0, 99), unique=True, min_size=1),
    cut=st.integers(0, 98),
    count=st.integers(0, 5),
)
def test_hunks_without_line_numbers_apply_where_lines_are_unique(
    old: list[int], cut: int, count: int
) -> None:
    cut %= len(old)
    lines = [f"  line {number};" for number in old]
    before = "\n".join(lines)
    after = "\n".join([*lines[:cut], "  new;", *lines[cut + count :]])
    patch = "\n".join(
        "@@" if line[:2] == "@@" else line for line in diff(before, after).split("\n")
    )
    assert apply(before, patch) == after


@given(patch=st.text(alphabet=st.sampled_from("@ -+ab\n"), max_size=60))
def test_any_text_is_applied_or_refused(patch: str) -> None:
    with contextlib.suppress(PatchError):
        assert isinstance(apply(BASE, patch), str)


def test_a_patch_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(
        PatchError, match=f"at most {MOST_CHARS} characters, found {MOST_CHARS + 1}"
    ):
        apply(BASE, "@@\n" + "\n" * (MOST_CHARS - 2))


WORDS = st.lists(st.sampled_from("ab"), max_size=30)


class Counted:
    """A line that counts comparisons with it."""

    compared = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.text == other.text

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@given(among=WORDS, wanted=WORDS.filter(bool))
def test_every_place_is_found(among: list[str], wanted: list[str]):
    size = len(wanted)
    places = [at for at in range(len(among)) if among[at : at + size] == wanted]
    assert occurrences(among, wanted) == places


@given(
    among=st.sampled_from(["a", "ab", "aab", "aaab"]),
    wanted=st.sampled_from(["a", "aa", "ab", "aab", "aba"]),
    end=st.sampled_from(["", "a", "b", "c"]),
    sizes=st.tuples(st.integers(1, 200), st.integers(1, 100)),
)
def test_comparisons_are_linear_however_lines_repeat(
    among: str, wanted: str, end: str, sizes: tuple[int, int]
):
    lines = [Counted(each) for each in among * sizes[0]]
    looked_for = [Counted(each) for each in wanted * sizes[1] + end]
    Counted.compared = 0
    occurrences(lines, looked_for)
    assert Counted.compared <= 2 * (len(lines) + len(looked_for))
