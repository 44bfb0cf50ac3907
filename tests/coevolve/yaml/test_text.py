import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.yaml.text import MOST_DEPTH, MOST_DIGITS, NotYamlError, parse_yaml, write_yaml

TEXTS = st.text(
    st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\n\t"), max_size=9
)
LIKE_OTHERS = st.from_regex(r"[-+]?[0-9._:xeE~]{1,6}", fullmatch=True)
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | LIKE_OTHERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(value=VALUES)
def test_what_is_written_is_read_as_the_same(value: object) -> None:
    assert parse_yaml(write_yaml(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("off", "off"), ("010", "010"), ("1:30", "1:30"), ("1:30.5", "1:30.5"), ("=", "=")),
        *(("1e-3", 0.001), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("-.inf", float("-inf"))),
        *(("0x10", 16), ("1_000", 1000), ("true", True), ("~", None), ("1e", "1e"), (".", ".")),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    assert parse_yaml(text) == value


@pytest.mark.parametrize("begun", ["1", "0x1", "1.", "1e"])
def test_a_number_has_so_many_characters_at_most(begun: str) -> None:
    digits = MOST_DIGITS - len(begun)
    assert isinstance(parse_yaml(f"{begun}{'0' * digits}"), int | float)
    with pytest.raises(NotYamlError, match=f"found a number of {MOST_DIGITS + 1} characters; give"):
        parse_yaml(f"{begun}{'0' * (digits + 1)}")


def test_an_alias_is_a_copy_of_its_value() -> None:
    tree = parse_yaml("a: &x {b: [1]}\nc: *x\nd: {<<: *x, e: 2}")
    assert tree == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1], "e": 2}}
    tree["a"]["b"].append(2)
    assert tree["c"] == {"b": [1]}


def test_aliases_that_would_take_all_memory_are_refused_at_once() -> None:
    lines = [
        "x0: &x0 [a]",
        *(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, MOST_DEPTH - 2)),
    ]
    with pytest.raises(NotYamlError, match=r"^line 1, column 1: found \d+ values with .*; write"):
        parse_yaml("\n".join(lines))
