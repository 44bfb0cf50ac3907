"""`coevolve explain`."""

import sys
import textwrap

import click

from coevolve.base.similar import did_you_mean

WIDTH = 88
INDENT = "    "


@click.command(name="explain")
@click.argument("word", default="")
def command(word: str) -> None:
    """Say what a metric or a word means; without WORD, list all metrics.

    A metric is a name of metrics.jsonl, such as actor/entropy, which trackers show as well: it is
    told with its unit, and what to do if it moves. Other words are those of the glossary, such as
    "instance gap".
    """
    from coevolve.history.metric_docs import meaning_of, meanings, term_of, terms

    if not word:
        sys.stdout.write(_overview())
        return
    found = meaning_of(word)
    if found is None and (term := term_of(word)) is not None:
        lines = [", ".join(term.names), *_wrapped(term.meaning)]
        sys.stdout.write("\n".join(lines) + "\n")
        return
    if found is None:
        known = [name for each in (*meanings(), *terms()) for name in each.names]
        hint = did_you_mean(word, known) or "; `coevolve explain` lists all metrics"
        raise click.UsageError(f"there is no metric or word {word!r}{hint}")
    lines = [", ".join(found.names), *_wrapped(found.meaning), *_wrapped(f"unit: {found.unit}")]
    lines += _wrapped(f"if it moves: {found.moves}") if found.moves else []
    sys.stdout.write("\n".join(lines) + "\n")


def _overview() -> str:
    from coevolve.history.metric_docs import meanings

    lines: list[str] = []
    section = ""
    for each in meanings():
        if each.section != section:
            section = each.section
            lines += ["", section]
        lines += [f"  {', '.join(each.names)}", *_wrapped(each.meaning, "      ")]
    return "\n".join(lines).lstrip("\n") + "\n"


def _wrapped(text: str, indent: str = INDENT) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
