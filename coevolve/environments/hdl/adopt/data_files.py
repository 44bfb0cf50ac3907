"""Finds the files that a design reads while it is simulated, and gives them to it as data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from coevolve.environments.hdl.designs.rtl import Rtl, file_reads
from coevolve.environments.hdl.gate.tokens import read
from coevolve.environments.hdl.simulate.messages import DataFile, SourceFile, Unit
from protocols.errors import ConfigError

MOST_BYTES = 8 << 20


def with_data(
    rtl: Rtl, origins: Mapping[str, Path], places: Sequence[Path]
) -> tuple[Unit, list[str]]:
    """Return the design with its data files, and a note on each that is not found.

    A file is looked for in the working folder, in ``places``, and in the folders of the sources. As
    in Verilator, memory that a missing file would fill is 0: its copy is empty.
    """
    unit, notes = rtl.unit, list[str]()
    data: dict[str, DataFile] = {}
    for place, _, name in file_reads(rtl):
        if not name or name in data:
            continue
        path = next(_found(name, origins, places), None)
        if path is None:
            notes.append(
                f"{place}: reads {name!r}, which is not found, so that its memory is 0; name its "
                "folder by --data"
            )
        own = _own_name(name)
        if own != name:
            unit = msgspec.structs.replace(unit, files=tuple(_renamed(unit.files, name, own)))
        data[name] = DataFile(name=own, text=text_of(path) if path else "")
    return msgspec.structs.replace(unit, data=tuple(data.values())), notes


def _found(name: str, origins: Mapping[str, Path], places: Sequence[Path]) -> Iterator[Path]:
    folders = [Path(), *places, *dict.fromkeys(path.parent for path in origins.values())]
    for folder in folders:
        for path in (folder / name, folder / Path(name).name):
            if path.is_file():
                yield path
    for place in places:
        if place.is_file() and place.name == Path(name).name:
            yield place


def _own_name(name: str) -> str:
    """Return the name if it is inside of the design's folder, else its last part."""
    try:
        return msgspec.convert({"name": name, "text": ""}, DataFile).name
    except msgspec.ValidationError:
        kept = "".join(each if each.isalnum() or each in "_.-" else "_" for each in Path(name).name)
        return kept.lstrip(".-") or "data"


def _renamed(files: Iterable[SourceFile], name: str, own: str) -> Iterator[SourceFile]:
    """Yield the files with ``own`` in each string that is ``name``."""
    for file in files:
        words, _ = read(file.text)
        text = file.text.encode()
        for word in reversed(words):
            if word.kind == "string" and word.name == f'"{name}"':
                end = word.offset + len(word.name.encode())
                text = text[: word.offset] + f'"{own}"'.encode() + text[end:]
        yield SourceFile(name=file.name, text=text.decode())


def text_of(path: Path) -> str:
    """Return the text of a data file. Raises ConfigError if it is too long, or cannot be read."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path}: needs to have at most {MOST_BYTES} bytes, has more")
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
