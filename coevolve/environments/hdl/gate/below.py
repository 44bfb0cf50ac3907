"""Finds the modules of the RTL that may hold a part of the design, by the names in their texts.

Files may also have modules that only testbenches use, such as generators of clocks. A module counts
as part of the design if the top names it, or another such module does, whatever the name is for,
and if it names the top, or another such module; also if it is named in a macro, or outside of all
modules. A ``bind`` may reach anything, so with one all modules count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from coevolve.environments.hdl.gate.tokens import Word

ANYWHERE = ""
"""Stands for the texts outside of all modules."""


def modules_below(
    top: str, texts: Mapping[str, set[str]], macros: Iterable[Sequence[Word]]
) -> frozenset[str]:
    """Return ``top`` and the modules that may be below or above it.

    ``texts`` has the names in each module, and under `ANYWHERE` those outside; ``macros`` the words
    of macros.
    """
    modules = texts.keys() - {ANYWHERE}
    everywhere = {word.name for words in macros for word in words} | texts.get(ANYWHERE, set())
    if "bind" in everywhere.union(*texts.values()):
        return frozenset(modules)
    named = {module: names & modules for module, names in texts.items() if module}
    users = {each: {user for user in named if each in named[user]} for each in modules}
    below = _reached({top} | (everywhere & modules), named)
    return frozenset((below | _reached({top}, users)) & modules)


def _reached(begin: set[str], to: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = list(begin)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += to.get(name, ())
    return found


def names_by_module(words: Sequence[Word], modules: Iterator[Word]) -> Iterator[tuple[str, str]]:
    """Yield each word of a file with the module that has it; ``modules`` are the declared names."""
    begins = {name.offset: name.name for name in modules}
    inside, ended = ANYWHERE, 0
    for at, word in enumerate(words):
        if ended and at > ended + 2 * (words[ended + 1].name == ":"):
            inside, ended = ANYWHERE, 0
        inside = begins.get(word.offset, inside)
        yield inside, word.name
        if word.keyword and word.name == "endmodule":
            ended = at
