"""HTML and SVG elements as text. Whatever is not `Markup` is escaped where it is put in."""

import html
import re
from collections.abc import Sequence

NOT_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""What HTML does not allow; tasks and models may contain it."""


class Markup(str):
    """Text that is markup already; made by the functions of this module alone."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return ``text`` so that a browser shows it as it is, markup or not."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_UNPRINTABLE.sub(NOT_A_CHARACTER, text), quote=True))


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return the element ``name`` with its children in order.

    Attributes are named as in Python: ``class_`` is ``class``, ``stroke_width`` ``stroke-width``.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Sequence[str]) -> Markup:
    """Return the children one after the other."""
    return Markup("".join(map(escaped, children)))


def clipped(text: str, most: int) -> str:
    """Return ``text`` with at most ``most`` characters, an ellipsis for the rest."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
