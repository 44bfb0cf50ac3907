"""Writes the page of all settings, ``coevolve/docs/configuration.md``; `COMMAND` says how."""

import sys
from collections.abc import Iterator, Sequence

from coevolve.config.reference import Kind, Setting, reference
from coevolve.config.text import alike, default_of, kinds_of, wrapped

WIDTH = 108
COMMAND = "python -m tests.configuration_page > coevolve/docs/configuration.md"

HEAD = f"""\
# Configuration

A run file is YAML. It says what a run trains, on what, and how; every setting but `name` has a
default. This page lists all of them. `{COMMAND}` writes it from the structs that decode run
files.

## Name a run file

Every command that takes a run file takes a path, or the name of a run file that coevolve carries:

    coevolve config list                              # the run files that coevolve carries
    coevolve config show quickstart > mine.yaml       # begin one of your own, comments included
    coevolve config check mine.yaml                   # all faults at once; exits 1 if there are any
    coevolve config show mine.yaml --resolved         # every setting, defaults spelled out
    coevolve config explain learner.objective         # meaning, type, range, default
    coevolve config explain environment --environment USE     # the settings of one environment

A file that exists wins over a carried one. `quickstart`, `quickstart.yaml` and
`configs/quickstart.yaml` all name the carried run file wherever you are.

## Override settings

After the run file, `key=value` sets one setting for this run:

    coevolve launch quickstart learner.steps=200 name=longer
    coevolve launch quickstart 'learner.objective={{kind: gspo, clip_high: 4e-4}}'

- The value is YAML. Put the whole override in quotes if it has blanks, brackets or braces.
- An override wins over the file, a later override over an earlier one, and the file over the
  default.
- A list is given as a whole: `signals.kinds=[boundary]`.
- A section of several kinds, such as `learner.objective`, is chosen by its `kind`. Without `kind`
  the section is of the default kind. A setting of another kind is refused.
- One message names all faults of single settings, and then all conflicts between settings. Each
  has its path (`$.learner.steps` in the file, or `override learner.steps`), what is required, what
  was found, and a remedy.

## YAML as run files have it

- `1e-3` is a number; so is `10_000`. Write no units: the name of a setting has them (`_s`
  seconds, `_mb` megabytes, `_gb` gigabytes), and shares are numbers from 0 to 1.
- `true` and `false` are the only truth values. `yes`, `no`, `on` and `off` are text, so
  `learner.importance: off` needs no quotes.
- Text that looks like a number or a date needs quotes: `name: "2024"`.
- A setting may stand only once in its section. Indent with spaces.
- Leave a setting out to get its default; a setting without a value is refused.

"""


def page() -> str:
    """Return the page as Markdown."""
    top = reference()
    values = [each for each in top.settings if not each.kinds]
    sections = [each for each in top.settings if each.kinds]
    lines = ["## The run", "", *_paragraphs(top.meaning), "", *_entries(values)]
    for section in sections:
        lines += ["", f"## {section.path}", "", *_section(section)]
    return HEAD + "\n".join(lines) + "\n"


def _section(section: Setting) -> Iterator[str]:
    """Yield the meaning, then what all kinds share, then the settings of each kind."""
    yield from _paragraphs(section.meaning)
    for kind in section.kinds:
        yield ""
        if kind.name:
            yield from (f"### {_heading(kind)}", "")
        if kind.meaning and kind.meaning != section.meaning:
            yield from (*_paragraphs(kind.meaning), "")
        yield from _entries(kind.settings)


def _heading(kind: Kind) -> str:
    word, _, name = kind.name.partition(" ")
    return f"{word}: `{name}`"


def _entries(settings: Sequence[Setting]) -> Iterator[str]:
    """Yield a list of settings; those of an inner section follow it."""
    for group in alike(settings):
        yield from _entry(group)
        yield from _inner(group[0])


def _inner(setting: Setting) -> Iterator[str]:
    """Yield the settings of a section that stands in a list of settings."""
    named = [kind for kind in setting.kinds if kind.name]
    for kind in named:
        said = kind.meaning.replace("\n\n", " ")
        yield from _item(f"`{setting.path}` of {kind.name}: {said}")
    groups = alike(each for kind in setting.kinds for each in kind.settings)
    for group in groups:
        yield from _entry(group)
        yield from _inner(group[0])


def _entry(group: Sequence[Setting]) -> Iterator[str]:
    setting, default = group[0], default_of(group)
    kinds = kinds_of(group) if setting.of and setting.of[-1].startswith("kind") else ""
    said = "required" if default == "required" else default and f"default `{default}`"
    facts = "; ".join(each for each in (kinds, setting.form, said) if each)
    meaning = setting.meaning.replace("\n\n", " ")
    yield from _item(f"`{setting.path}` ({facts}): {meaning}")


def _item(text: str) -> list[str]:
    first, *rest = wrapped(text, WIDTH - 2)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _paragraphs(text: str) -> list[str]:
    return wrapped(text, WIDTH)


if __name__ == "__main__":
    sys.stdout.write(page())
