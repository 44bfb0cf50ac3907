"""The page's scripts: Vega, which draws the charts, and `browser/*.js`, which ask it to.

The package vl-convert-python carries Vega, so a page needs no network. A browser runs only scripts
with the digests in the page's content security policy, whatever a task's text contains. Vega's
expressions are interpreted: the policy forbids to make code from text.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

from coevolve.base.visible import visible
from coevolve.report.markup import Markup, tag

FOLDER = Path(__file__).parent / "browser"


@cache
def library() -> str:
    """Return the JavaScript that defines `vegaEmbed`; this takes a second."""
    import vl_convert  # starts an engine for JavaScript, so only when a page is written

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


@cache
def own(name: str) -> str:
    """Return the text of ``browser/name.js``."""
    return (FOLDER / f"{name}.js").read_text("utf-8")


def policy(scripts: Sequence[str], board: str = "'none'") -> str:
    """Return the content security policy of a page that has exactly these scripts inline.

    ``board`` is whom they may ask for data, and where its forms lead.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; connect-src {board}; "
        f"script-src {allowed}; base-uri 'none'; form-action {board}"
    )


def script(text: str) -> Markup:
    """Return a script of ours; it must not contain the end of a script element."""
    assert "</script" not in text
    return Markup(f"<script>{text}</script>")


def data_block(name: str, value: object) -> Markup:
    """Return ``value`` as JSON in an element that no browser executes, with ``name`` as its id."""
    text = json.dumps(
        visible_tree(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    text = text.replace("<", "\\u003c").replace("&", "\\u0026")
    return tag("script", Markup(text), type="application/json", id=name)


def visible_tree(value: object) -> object:
    """Return ``value`` with `visible` strings."""
    match value:
        case str():
            return visible(value)
        case list():
            return list(map(visible_tree, cast("list[object]", value)))
        case dict():
            items = cast("dict[str, object]", value).items()
            return {visible(key): visible_tree(each) for key, each in items}
        case _:
            return value
