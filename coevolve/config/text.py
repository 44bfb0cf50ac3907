"""Settings in words, as a terminal shows them."""

import re
import textwrap
from collections.abc import Iterable, Sequence

from coevolve.config.reference import Kind, Setting, reference

WIDTH = 88
INDENT = "    "


def overview(width: int = WIDTH) -> str:
    """Return every setting of the top, sections among them, with what it is in a sentence."""
    lines = [
        "A run file has these settings; `coevolve config explain NAME` explains one of them.",
        "",
        *_table(reference().settings, width),
    ]
    return "\n".join(lines) + "\n"


def explanation(found: Sequence[Setting], width: int = WIDTH) -> str:
    """Return what settings of one path mean; equal meanings in several kinds are said once."""
    return "\n".join(_explained(group, width) for group in alike(found))


def alike(settings: Iterable[Setting]) -> list[list[Setting]]:
    """Group the settings that differ in nothing but their kinds and defaults."""
    groups: dict[tuple[str, str, str, tuple[Kind, ...]], list[Setting]] = {}
    for each in settings:
        groups.setdefault((each.path, each.meaning, each.form, each.kinds), []).append(each)
    return list(groups.values())


def default_of(group: Sequence[Setting]) -> str:
    """Return the default of settings that are alike, for example ``0.2 (gspo), 0.28 (grpo)``."""
    by_default: dict[str, list[str]] = {}
    for each in group:
        default = "required" if each.default is None else each.default
        by_default.setdefault(default, []).append(_last(each.of))
    if len(by_default) == 1:
        return next(iter(by_default))
    return ", ".join(f"{value} ({', '.join(of)})" for value, of in by_default.items())


def where(group: Sequence[Setting]) -> str:
    """Return the sections of several kinds that settings which are alike stand in."""
    return ", ".join([*group[0].of[:-1], kinds_of(group)]) if group[0].of else ""


def kinds_of(group: Sequence[Setting]) -> str:
    """Return the kinds that settings which are alike belong to, as ``kind grpo, dapo``."""
    word = group[0].of[-1].partition(" ")[0]
    return f"{word} {', '.join(_last(each.of) for each in group)}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a meaning."""
    return re.split(r"(?<=[^.\s][.])\s+(?=[A-Z`(0-9])", text.partition("\n")[0], maxsplit=1)[0]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return paragraphs in lines of at most ``width``, a blank line between two."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += [
            "",
            *textwrap.wrap(
                paragraph,
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ),
        ]
    return lines[1:]


def _last(of: Sequence[str]) -> str:
    return of[-1].partition(" ")[2] if of else ""


def _explained(group: Sequence[Setting], width: int) -> str:
    setting = group[0]
    place = where(group)
    lines = [f"{setting.path}{f'  ({place})' if place else ''}"]
    lines += wrapped(setting.meaning, width, INDENT)
    lines += ["", f"{INDENT}{setting.form}"]
    default = default_of(group)
    if default:
        lines.append(f"{INDENT}{default if default == 'required' else f'default {default}'}")
    for kind in setting.kinds:
        lines += _kind(kind, setting, width)
    return "\n".join(lines) + "\n"


def _kind(kind: Kind, setting: Setting, width: int) -> list[str]:
    lines = ["", *([kind.name] if kind.name else [])]
    if kind.meaning and kind.meaning != setting.meaning:
        lines += [*wrapped(kind.meaning, width, INDENT), ""]
    return [*lines, *_table(kind.settings, width)]


def _table(settings: Sequence[Setting], width: int) -> list[str]:
    """Return a line or two for each setting: name, form and default, and a sentence."""
    lines: list[str] = []
    for each in settings:
        default = "required" if each.default is None else each.default and f"default {each.default}"
        facts = "; ".join(part for part in (each.form, default) if part)
        lines += wrapped(f"{each.path}: {facts}", width, INDENT)
        lines += wrapped(first_sentence(each.meaning), width, INDENT * 2)
    return lines
