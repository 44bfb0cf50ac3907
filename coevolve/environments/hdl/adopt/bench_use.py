"""Fits a design to a person's testbench: the parameters of its instance, and the files it reads."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from coevolve.environments.hdl.adopt.copies import with_parameters
from coevolve.environments.hdl.adopt.data_files import text_of
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.gate.elaboration import BenchUse, bench_use
from coevolve.environments.hdl.gate.rules import LOADS, OPENS
from coevolve.environments.hdl.gate.tokens import Word, read
from coevolve.environments.hdl.simulate.messages import DataFile, Unit
from protocols.errors import ConfigError

MOST_LISTED = 4
MOST_NAME = 100
"""Characters of the name of a file in the simulation."""

_FOLDER = "read_by_testbench"
_WRITES = ('"w', '"a')
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")


def as_instantiated(
    unit: Unit, testbench: str, told: str = "", instance: str = ""
) -> tuple[Unit, str]:
    """Return the design with the parameters that the testbench gives to its instance, and a note.

    The note says which of several instances count. Points that were frozen for other parameters,
    and waivers of them, do not count. A testbench that cannot be read leaves the design as it is;
    its simulation says why. Raises ConfigError where the parameters would change other instances.
    """
    use = bench_use(testbench, unit, told, instance)
    if use.conflict:
        raise ConfigError(f"testbench: {use.conflict}")
    note = _said_instances(use)
    files = with_parameters(elaborate(unit), use.parameters) if use.parameters else unit.files
    if files != unit.files:
        unit = msgspec.structs.replace(unit, files=files, points_sha256="", unreachable=())
    return unit, note


def _said_instances(use: BenchUse) -> str:
    """Return which of several instances of the design count; empty for a single one."""
    if len(use.counted) + len(use.others) < 2:
        return ""
    note = f"counted: {_listed(use.counted)}"
    if use.others:
        note += f"; not counted: {_listed(use.others)}, which --instance can name"
    return note


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_LISTED} more" * (len(paths) > MOST_LISTED)
    return ", ".join(paths[:MOST_LISTED]) + more


def with_bench_data(
    unit: Unit,
    testbench: str,
    files: Sequence[Path],
    places: Sequence[Path],
    *,
    trusted: bool = False,
) -> tuple[Unit, str]:
    """Return the design with the files that the testbench reads, and the text with their names.

    They are looked for in the working folder, ``places``, and the folders of ``files``. Only a
    ``trusted`` testbench may name one outside of these folders. Each gets a name of its own, so
    that none takes the place of another file of the simulation.
    """
    folders = (Path(), *places, *(file.parent for file in files))
    kept = {each.name for each in unit.data}
    own: dict[Path, DataFile] = {}
    text = testbench.encode()
    for word in reversed(list(_opened(testbench))):
        name = word.name[1:-1]
        found = _found(name, folders, places)
        path = next((each for each in found if trusted or _is_in(each, folders)), None)
        if name in kept or path is None:
            continue
        if path not in own:
            called = f"{_FOLDER}/{len(own)}-{_STRANGE.sub('_', path.name)}"
            own[path] = DataFile(name=called[:MOST_NAME], text=text_of(path))
        end = word.offset + len(word.name.encode())
        text = text[: word.offset] + f'"{own[path].name}"'.encode() + text[end:]
    return msgspec.structs.replace(unit, data=(*unit.data, *own.values())), text.decode()


def _opened(testbench: str) -> Iterator[Word]:
    """Yield the strings that name a file to read."""
    words, _ = read(testbench)
    for at, (task, bracket, name) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        mode = "".join(each.name for each in words[at + 4 : at + 5])
        if (task.kind, bracket.name, name.kind) != ("task", "(", "string"):
            continue
        if task.name in LOADS or (task.name == OPENS and not mode.startswith(_WRITES)):
            yield name


def _found(name: str, folders: Sequence[Path], places: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in (folder / name, folder / Path(name).name):
            if path.is_file():
                yield path
    yield from (each for each in places if each.is_file() and each.name == Path(name).name)


def _is_in(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether the file is one of ``folders``, or in one, whatever links lead to it."""
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)
