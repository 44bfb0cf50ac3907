"""Bounds the work of the maths tools, whose cost depends on the size of a number.

Python's integers, the decimal module and mpmath compute any request in single steps that nothing
can interrupt. This module replaces such a call by one with the same answer, or refuses it:

- an integer power that is too long to print becomes a smaller one that is also too long, and ends
  in the same error;
- rounding an integer stops at the longest integer that a call can contain;
- more than ``MAX_PRECISION`` digits of a logarithm or a square root are refused, and so is a number
  written in more than ``MAX_NUMBER_CHARS`` characters.
"""

import sys

from coevolve.environments.tools.calls import MAX_CHARS, Call, RefusedCallError

MAX_PRECISION = 1000
MAX_NUMBER_CHARS = 100

UNPRINTABLE_BITS = 4 * sys.int_info.default_max_str_digits
"""Python does not print an integer with this many bits."""

MOST_DIGITS = 2 * MAX_CHARS
"""Every integer in a call has fewer digits than this, in any base."""


def bounded(call: Call) -> Call:
    """Return the call to execute in place of ``call``. Raises RefusedCallError."""
    match call.tool:
        case "power":
            return _bounded_power(call)
        case "round_number":
            return _bounded_rounding(call)
        case "square_root":
            _check_precision(_argument(call, 1, "precision"))
        case "logarithm":
            _check_precision(_argument(call, 2, "precision"))
            _check_number(_argument(call, 0, "value"))
            _check_number(_argument(call, 1, "base"))
        case _:
            pass
    return call


def _bounded_power(call: Call) -> Call:
    base, exponent = _argument(call, 0, "base"), _argument(call, 1, "exponent")
    if not isinstance(base, int) or not isinstance(exponent, int) or abs(base) < 2:
        return call
    most = UNPRINTABLE_BITS // (base.bit_length() - 1) + 1
    return call if exponent <= most else _replaced(call, 1, "exponent", most)


def _bounded_rounding(call: Call) -> Call:
    number, places = _argument(call, 0, "number"), _argument(call, 1, "decimal_places")
    if not isinstance(number, int) or not isinstance(places, int) or places >= -MOST_DIGITS:
        return call
    return _replaced(call, 1, "decimal_places", -MOST_DIGITS)


def _check_precision(precision: object) -> None:
    if not isinstance(precision, int | float | str):
        return
    try:
        digits = int(precision)  # as mpmath reads it
    except (ValueError, OverflowError):
        return
    if digits > MAX_PRECISION:
        raise RefusedCallError(f"the precision is at most {MAX_PRECISION} digits")


def _check_number(number: object) -> None:
    if isinstance(number, str) and len(number) > MAX_NUMBER_CHARS:
        raise RefusedCallError(f"a number has at most {MAX_NUMBER_CHARS} characters")


def _argument(call: Call, position: int, name: str) -> object:
    """Return an argument, or None if the call does not give it."""
    return call.positional[position] if len(call.positional) > position else call.named.get(name)


def _replaced(call: Call, position: int, name: str, value: object) -> Call:
    if len(call.positional) <= position:
        return call._replace(named=call.named | {name: value})
    positional = (*call.positional[:position], value, *call.positional[position + 1 :])
    return call._replace(positional=positional)
