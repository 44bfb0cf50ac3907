import itertools

import pytest

from coevolve.environments.tools.bfcl.arithmetic import MOST_DIGITS, UNPRINTABLE_BITS, bounded
from coevolve.environments.tools.bfcl.stock import simulator_class
from coevolve.environments.tools.calls import MAX_CHARS, Call, RefusedCallError


def answer(call: Call) -> str:
    """Return the answer of the package's tool as it is printed."""
    try:
        return str(getattr(simulator_class("MathAPI")(), call.tool)(*call.positional, **call.named))
    except Exception as error:  # noqa: BLE001 -- as the package prints whatever is raised
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("base", [-3, -2, -1, 0, 1, 2, 3, 7, -(10**50), True, 1.5, "2"])
def test_a_bounded_power_has_the_answer_of_the_power(base: object) -> None:
    for exponent in (-5, 0, 1, 2, 50, 4299, 4300, 9000, 14284, 14285, 17_200, 17_201, 20_000, 2.0):
        for call in (
            Call("power", (base, exponent), {}),
            Call("power", (base,), {"exponent": exponent}),
            Call("power", (), {"exponent": exponent, "base": base}),
        ):
            assert answer(bounded(call)) == answer(call)


def test_a_power_that_cannot_be_printed_is_not_computed() -> None:
    call = bounded(Call("power", (10**40, 10**12), {}))
    base, exponent = call.positional
    assert isinstance(base, int)
    assert isinstance(exponent, int)
    assert UNPRINTABLE_BITS <= (base**exponent).bit_length() < 2 * UNPRINTABLE_BITS


@pytest.mark.parametrize("number", [0, 5, -5, 10**4000 - 1, True, 1.5, "5", None])
def test_a_bounded_rounding_has_the_answer_of_the_rounding(number: object) -> None:
    for places in (2, 0, -1, -3999, -4000, -4001, -MOST_DIGITS, -MOST_DIGITS - 1, -50_000, None):
        call = Call("round_number", (number,), {"decimal_places": places})
        assert answer(bounded(call)) == answer(call)


def test_no_number_of_a_call_has_as_many_digits_as_are_rounded_to() -> None:
    assert int("f" * MAX_CHARS, 16) < 10**MOST_DIGITS
    call = bounded(Call("round_number", (5, -(10**9)), {}))
    assert call.positional == (5, -MOST_DIGITS)


def test_a_precision_is_bounded_in_every_form_that_the_tools_accept() -> None:
    for precision in (1001, "1001", " 1_001 ", 1001.9, "\u0661\u0660\u0660\u0661", 1e300):
        for call in (
            Call("logarithm", (2, 3, precision), {}),
            Call("logarithm", (2,), {"precision": precision, "base": 3}),
            Call("square_root", (2, precision), {}),
            Call("square_root", (), {"number": 2, "precision": precision}),
        ):
            with pytest.raises(RefusedCallError, match="at most 1000 digits"):
                bounded(call)
    for precision in (1000, "1000", 1000.9, -5, True, None, [1], "x", float("inf"), "9" * 5000):
        call = Call("logarithm", (2, 3, precision), {})
        assert bounded(call) is call


def test_the_text_of_a_number_has_a_maximum_length() -> None:
    for value, base in itertools.permutations((2, "1" * 101)):
        with pytest.raises(RefusedCallError, match="a number has at most 100 characters"):
            bounded(Call("logarithm", (value, base, 10), {}))
    call = Call("logarithm", ("1" * 100, 3, 10), {})
    assert bounded(call) is call
