"""HTML and SVG elements as text. Each function escapes every string that is not `Markup`."""

import html
from collections.abc import Sequence

from coevolve.base.visible import visible

_EMPTY = ("input", "meta")
"""Elements without an end."""


class Markup(str):
    """Text that is markup already. Only the functions of this module make it."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return ``text`` so that a browser shows it literally and whole; `Markup` stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(text), quote=True))


def tag(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """Return the element ``name`` with its children in order.

    Attribute names follow Python: ``class_`` becomes ``class``, ``stroke_width`` ``stroke-width``.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for key, value in attributes.items()
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Sequence[str]) -> Markup:
    return Markup("".join(map(escaped, children)))


def clipped(text: str, most: int) -> str:
    """Return ``text`` cut to at most ``most`` characters; an ellipsis marks the cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
